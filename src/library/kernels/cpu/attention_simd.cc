#include "kernels/cpu/attention_simd.h"

#include <algorithm>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention_simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/attention_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace posenc::HWY_NAMESPACE {
namespace {

using cpu::RowState;

// exp(score - maximum) in place; adds the sums of a tile to `sum`. A tile is summed first: one weight of a million is
// below the rounding of what the others add up to.
void exponentiate(const Tile& tile, const PerQuery& maximum, PerQuery& sum, float* scores) {
  const Df d;
  for (std::size_t v = 0; v < kQueryBlock; v += hn::Lanes(d)) {
    const auto highest = hn::LoadU(d, maximum.data() + v);
    auto total = hn::Zero(d);
    for (std::size_t j = 0; j < tile.count; ++j) {
      float* at = scores + j * kQueryBlock + v;
      const auto e = fast_weight(d, hn::Sub(hn::LoadU(d, at), highest));
      total = hn::Add(total, e);
      hn::StoreU(e, d, at);
    }
    hn::StoreU(hn::Add(hn::LoadU(d, sum.data() + v), total), d, sum.data() + v);
  }
}

void scale_row(float* row, std::size_t size, float factor) {
  const Df d;
  for (std::size_t c = 0; c < size; c += hn::Lanes(d)) {
    hn::StoreU(hn::Mul(hn::LoadU(d, row + c), hn::Set(d, factor)), d, row + c);
  }
}

// A maximum that can be subtracted: 0 where a query has seen nothing yet.
PerQuery finite(const PerQuery& maximum) {
  PerQuery result = maximum;
  for (float& m : result) m = m == -kInfinity ? 0.0f : m;
  return result;
}

// Brings sums made under an older maximum up to the new one.
void rescale(const PerQuery& older, const PerQuery& newer, std::size_t width, PerQuery& sum,
             float* rows) {
  for (std::size_t r = 0; r < kQueryBlock; ++r) {
    if (older[r] == newer[r]) continue;
    const float factor = std::exp(older[r] - newer[r]);
    sum[r] *= factor;
    scale_row(rows + r * width, width, factor);
  }
}

// Adds the values of a tile, weighted. Where a query does not see a key, 0 times a NaN in its value
// would be NaN: `careful` leaves such pairs out.
void add_values(const HeadProblem& p, const QueryBlock& b, const Tile& tile, const Workspace& w,
                bool careful, float* out) {
  const float* values = p.v.data + tile.first * p.v.stride;
  const std::size_t width = p.padded_value_dim;
  if (!careful || !tile.masked) {
    multiply<true>({w.scores.data(), 1, kQueryBlock}, {values, p.v.stride}, {out, width},
                   kQueryBlock, width, tile.count);
    return;
  }
  for_visible_pairs(p, b, tile, [&](std::size_t j, std::size_t r) {
    add_scaled(w.scores[j * kQueryBlock + r], values + j * p.v.stride, width, out + r * width);
  });
}

// Whether what a row has says nothing of the keys that it has seen.
bool is_open(const HeadProblem& p, const RowState& state, std::size_t r) {
  return p.breaks_sticks ? state.carry[r] == 1.0f : state.sum[r] == 0.0f;
}

void note_seen(const HeadProblem& p, const QueryBlock& b, RowState& state) {
  for (std::size_t r = 0; r < b.count; ++r) {
    if (state.seen[r] == 0.0f && is_open(p, state, r) && sees_any_key(p, b, r))
      state.seen[r] = 1.0f;
  }
}

// Divides by the sums. A row is 0 where it sees no key, and NaN where no score it sees is above
// -infinity.
void normalise(const HeadProblem& p, const QueryBlock& b, const RowState& state, float* out,
               float* lse) {
  for (std::size_t r = 0; r < b.count; ++r) {
    float* row = out + r * p.padded_value_dim;
    if (state.sum[r] != 0.0f) {
      scale_row(row, p.padded_value_dim, 1.0f / state.sum[r]);
      lse[r] = state.maximum[r] + std::log(state.sum[r]);
      continue;
    }
    const bool blind = state.seen[r] == 0.0f;
    std::fill_n(row, p.value_dim, blind ? 0.0f : kNaN);
    lse[r] = blind ? -kInfinity : kNaN;
  }
}

// The logarithm of what is left of every row.
void measure_sticks(const HeadProblem& p, const QueryBlock& b, const RowState& state, float* lse) {
  constexpr float kLowest = std::numeric_limits<float>::lowest();
  for (std::size_t r = 0; r < b.count; ++r) {
    const float left = std::log(state.carry[r]) - state.carry[kQueryBlock + r];
    lse[r] = left < kLowest ? kLowest : left;  // -infinity says that no key is seen
    if (is_open(p, state, r) && state.seen[r] == 0.0f) lse[r] = -kInfinity;
  }
}

void finish_rows_simd(const HeadProblem& p, const QueryBlock& b, const RowState& state, float* out,
                      float* lse) {
  if (p.breaks_sticks) {
    measure_sticks(p, b, state, lse);
  } else {
    normalise(p, b, state, out, lse);
  }
}

void forward_pass(const HeadProblem& p, const QueryBlock& b, Workspace& w, bool careful,
                  RowState& state, float* out) {
  transpose(b.rows, p.dim, p.padded_dim, w.q_transposed.data());
  if (p.cope.npos > 0) fill_tables(p, b, w);
  if (p.relative.channels > 0) fill_products(p, b, w);
  if (p.cope.gate_keys.data != nullptr) {
    transpose(b.plain, p.dim, p.padded_dim, w.plain_transposed.data());
    for (float& x : w.plain_transposed) x *= p.cope.gate_scale;
  }
  PerQuery& maximum = state.maximum;
  float* carry = state.carry.data();
  PerQuery last_logit{};
  const KeyRange range = kept_tiles(p, b);
  const bool stops_counting = p.cope.npos > 0 && may_saturate(p, range);
  bool is_saturated = false;
  for (std::size_t t = range.end_tile; t-- > range.first_tile;) {
    if (stops_counting && !is_saturated && saturated(p, carry)) {
      is_saturated = true;
      last_entries(p, w, last_logit);
    }
    const Tile tile = tile_at(p, b, t);
    const PerQuery older = maximum;
    scores_of(p, b, tile, w, last_logit, is_saturated, 0, carry, maximum.data());
    if (has_chain(p)) pass_tile(p, b, tile, w);
    if (p.breaks_sticks) {
      break_tile<false>(p, tile, w, carry);
    } else {
      rescale(older, maximum, p.padded_value_dim, state.sum, out);
      exponentiate(tile, finite(maximum), state.sum, w.scores.data());
    }
    if (p.dropout.active()) drop(p, b, tile, w.scores.data());
    add_values(p, b, tile, w, careful, out);
  }
}

// A NaN may come from a value that its row does not see. It is rare: such a block is computed again.
void add_keys_simd(const HeadProblem& p, const QueryBlock& b, Workspace& w, RowState& state,
                   float* out) {
  const RowState before = state;
  std::copy_n(out, w.rows_before.size(), w.rows_before.begin());
  forward_pass(p, b, w, false, state, out);
  if (!all_finite(out, p.padded_value_dim, b.count, p.padded_value_dim)) {
    state = before;
    std::copy(w.rows_before.begin(), w.rows_before.end(), out);
    forward_pass(p, b, w, true, state, out);
  }
  note_seen(p, b, state);
}

std::size_t vector_lanes_simd() { return hn::Lanes(Df()); }

}  // namespace
}  // namespace posenc::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace posenc::cpu {

HWY_EXPORT(add_keys_simd);
HWY_EXPORT(finish_rows_simd);
HWY_EXPORT(vector_lanes_simd);

Workspace::Workspace(const Sizes& s)
    : q_transposed(s.padded_dim * kQueryBlock),
      rows_before(s.backward ? 0 : s.padded_value_dim * kQueryBlock),
      g_transposed(s.backward ? s.padded_value_dim * kQueryBlock : 0),
      plain_transposed(s.npos_stride > 0 ? s.padded_dim * kQueryBlock : 0),
      scores(kKeyBlock * kQueryBlock),
      dscores(s.backward ? kKeyBlock * kQueryBlock : 0),
      gate_logits(s.npos_stride > 0 ? kKeyBlock * kQueryBlock : 0),
      gates(s.backward && (s.npos_stride > 0 || s.breaks_sticks) ? kKeyBlock * kQueryBlock : 0),
      segments(s.npos_stride > 0 ? gates.size() : 0),
      fractions(segments.size()),
      tables(kQueryBlock * s.npos_stride),
      dtables(s.backward ? kQueryBlock * s.npos_stride : 0),
      carries(s.backward && (s.npos_stride > 0 || s.breaks_sticks)
                  ? ((s.keys + kKeyBlock - 1) / kKeyBlock + 1) * kCarry
                  : 0),
      products(kQueryBlock * s.relative_stride),
      sheared(kQueryBlock * s.relative_rows),
      dsheared(s.backward ? sheared.size() : 0),
      cap_slopes(s.backward && s.breaks_sticks ? gates.size() : 0),
      pairs(s.has_pairs ? (s.keys + kKeyBlock) * kQueryBlock : 0),
      dpairs(s.backward ? pairs.size() : 0),
      chain_next(s.chains ? q_transposed.size() : 0),
      chain_tops(s.backward ? (s.keys + kKeyBlock - 1) / kKeyBlock * chain_next.size() : 0),
      chain_marks(s.backward ? kKeyBlock / kStepBlock * chain_next.size() : 0),
      chain_met(s.backward ? kStepBlock * chain_next.size() : 0),
      chain_along(s.chains ? kStepBlock * kQueryBlock : 0),
      chain_rows(s.backward ? chain_next.size() : 0),
      chain_scratch(chain_rows.size()) {}

RowState first_state(const HeadProblem& problem) {
  RowState state{};
  state.maximum.fill(-std::numeric_limits<float>::infinity());
  if (problem.breaks_sticks) std::fill_n(state.carry.begin(), kQueryBlock, 1.0f);
  return state;
}

std::array<float, kCarry> idle_carry(const HeadProblem& problem) {
  std::array<float, kCarry> carry = first_state(problem).carry;
  if (problem.cope.npos > 0) {
    std::fill_n(carry.begin(), kQueryBlock, static_cast<float>(problem.cope.npos));
  }
  return carry;
}

void attention_add_keys(const HeadProblem& problem, const QueryBlock& block, Workspace& space,
                        RowState& state, float* out) {
  HWY_DYNAMIC_DISPATCH(add_keys_simd)(problem, block, space, state, out);
}

void attention_finish_rows(const HeadProblem& problem, const QueryBlock& block,
                           const RowState& state, float* out, float* lse) {
  HWY_DYNAMIC_DISPATCH(finish_rows_simd)(problem, block, state, out, lse);
}

void attention_forward_block(const HeadProblem& problem, const QueryBlock& block, Workspace& space,
                             float* out, float* lse) {
  RowState state = first_state(problem);
  std::fill_n(out, kQueryBlock * problem.padded_value_dim, 0.0f);
  attention_add_keys(problem, block, space, state, out);
  attention_finish_rows(problem, block, state, out, lse);
}

std::size_t vector_lanes() { return HWY_DYNAMIC_DISPATCH(vector_lanes_simd)(); }

}  // namespace posenc::cpu
#endif  // HWY_ONCE
