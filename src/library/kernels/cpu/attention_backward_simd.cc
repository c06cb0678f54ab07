#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/cpu/attention_simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention_backward_simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/attention_tile-inl.h"
#include "kernels/cpu/chain_gradients-inl.h"
#include "kernels/cpu/term_gradients-inl.h"

HWY_BEFORE_NAMESPACE();
namespace posenc::HWY_NAMESPACE {
namespace {

using cpu::BackwardInputs;

// Weights from scores, and the gradient at the scores from that at the weights, both in place:
// w = exp(s - lse), ds = w (dw - delta), times the derivative of the bound, if there is one.
void weights_and_dscores(const HeadProblem& p, const QueryBlock& b, const Tile& tile,
                         const BackwardInputs& in, Workspace& w) {
  const Df d;
  PerQuery lse{};
  PerQuery delta{};
  for (std::size_t r = 0; r < kQueryBlock; ++r) {
    const bool real = r < b.count && in.lse[r] != -kInfinity;
    lse[r] = real ? in.lse[r] : kInfinity;  // weight 0
    delta[r] = real ? in.delta[r] : 0.0f;
  }
  if (p.dropout.active()) drop(p, b, tile, w.dscores.data());
  for (std::size_t v = 0; v < kQueryBlock; v += hn::Lanes(d)) {
    const auto shift = hn::LoadU(d, lse.data() + v);
    const auto mean = hn::LoadU(d, delta.data() + v);
    for (std::size_t j = 0; j < tile.count; ++j) {
      const std::size_t at = j * kQueryBlock + v;
      const auto score = hn::LoadU(d, w.scores.data() + at);
      const auto weight = fast_weight(d, hn::Sub(score, shift));
      const auto dweight = hn::LoadU(d, w.dscores.data() + at);
      auto dscore = hn::Mul(weight, hn::Sub(dweight, mean));
      if (p.softcap > 0.0f) dscore = hn::Mul(dscore, cap_slope(p, score));
      hn::StoreU(weight, d, w.scores.data() + at);
      hn::StoreU(dscore, d, w.dscores.data() + at);
    }
  }
  if (p.dropout.active()) drop(p, b, tile, w.scores.data());
}

// Shares of the stick from scores, and the gradient at the scores from that at the shares, both in place. From the
// first key to the last: `before` is SUM of share times gradient over the keys before, which a key takes from.
// A row that is NaN is so everywhere, also at keys nearer than the first NaN: it has NaN in place of 0 added.
void shares_and_dscores(const HeadProblem& p, const QueryBlock& b, const Tile& tile,
                        const BackwardInputs& in, Workspace& w, float* carry, float* before) {
  const Df d;
  PerQuery of_shares{};
  PerQuery of_gradients{};
  for (std::size_t r = 0; r < b.count; ++r) {
    of_shares[r] = std::isnan(in.lse[r]) ? kNaN : 0.0f;
    of_gradients[r] = std::isfinite(in.delta[r]) ? of_shares[r] : kNaN;
  }
  break_tile<true>(p, tile, w, carry);
  if (p.dropout.active()) drop(p, b, tile, w.dscores.data());
  for (std::size_t v = 0; v < kQueryBlock; v += hn::Lanes(d)) {
    auto sum = hn::LoadU(d, before + v);
    const auto to_share = hn::LoadU(d, of_shares.data() + v);
    const auto to_gradient = hn::LoadU(d, of_gradients.data() + v);
    for (std::size_t j = 0; j < tile.count; ++j) {
      const std::size_t at = j * kQueryBlock + v;
      const auto share = hn::LoadU(d, w.gates.data() + at);
      const auto product =
          hn::Mul(hn::LoadU(d, w.scores.data() + at), hn::LoadU(d, w.dscores.data() + at));
      // A hidden key, whose share is 0, may be NaN.
      const auto own = hn::IfThenElseZero(hn::Gt(share, hn::Zero(d)), product);
      auto dscore = hn::Sub(hn::Mul(own, hn::Sub(hn::Set(d, 1.0f), share)), hn::Mul(sum, share));
      if (p.softcap > 0.0f) dscore = hn::Mul(dscore, hn::LoadU(d, w.cap_slopes.data() + at));
      hn::StoreU(hn::Add(dscore, to_gradient), d, w.dscores.data() + at);
      hn::StoreU(hn::Add(hn::LoadU(d, w.scores.data() + at), to_share), d, w.scores.data() + at);
      sum = hn::Add(sum, own);
    }
    hn::StoreU(sum, d, before + v);
  }
  if (p.dropout.active()) drop(p, b, tile, w.scores.data());
}

// Rows past the block's queries: zero, whatever a table or a key made of them.
void clear_missing_queries(const QueryBlock& b, const Tile& tile, float* values) {
  if (b.count == kQueryBlock) return;
  for (std::size_t j = 0; j < tile.count; ++j) {
    float* row = values + j * kQueryBlock;
    std::fill(row + b.count, row + kQueryBlock, 0.0f);
  }
}

// Zero where a query does not see a key, which a row of NaNs or an overflow there would not be.
void clear_hidden(const HeadProblem& p, const QueryBlock& b, const Tile& tile, float* values) {
  const Df d;
  for (std::size_t v = 0; v < kQueryBlock; v += hn::Lanes(d)) {
    const std::int64_t place = p.place_offset + static_cast<std::int64_t>(b.first + v);
    for (std::size_t j = 0; j < tile.count; ++j) {
      float* at = values + j * kQueryBlock + v;
      const auto visible = sees(p, place, tile.first + j);
      hn::StoreU(hn::IfThenElseZero(visible, hn::LoadU(d, at)), d, at);
    }
  }
}

void clear_unseen(const HeadProblem& p, const QueryBlock& b, const Tile& tile, float* values) {
  if (tile.masked) clear_hidden(p, b, tile, values);
  clear_missing_queries(b, tile, values);
}

// Whether anything that the backward of a block multiplies is NaN or infinite, in its queries or in a
// tile of keys. Products then leave hidden pairs out, whose 0 would not hide it.
bool queries_are_finite(const HeadProblem& p, const QueryBlock& b, const BackwardInputs& in) {
  for (std::size_t r = 0; r < b.count; ++r) {
    const bool blind = in.lse[r] == -kInfinity;
    if (!std::isfinite(in.delta[r]) || !(blind || std::isfinite(in.lse[r]))) return false;
  }
  return all_finite(b.rows, p.padded_dim, b.count, p.padded_dim) &&
         all_finite(in.grad_out, p.padded_value_dim, b.count, p.padded_value_dim);
}
bool keys_are_finite(const HeadProblem& p, const Tile& tile) {
  const cpu::Rows& gates = p.cope.gate_keys;
  return rows_are_finite(p.k, p.padded_dim, tile) &&
         rows_are_finite(p.v, p.padded_value_dim, tile) &&
         (gates.data == nullptr || rows_are_finite(gates, p.padded_dim, tile));
}

void add_tiles(std::size_t count, const float* from, float* to) {
  const Df d;
  for (std::size_t i = 0; i < count * kQueryBlock; i += hn::Lanes(d)) {
    hn::StoreU(hn::Add(hn::LoadU(d, to + i), hn::LoadU(d, from + i)), d, to + i);
  }
}

// to_keys[j] += SUM_r factor[j][r] queries[r], and to_queries[r] += SUM_j factor[j][r] keys[j] where
// it is given. Rows have `dim` channels.
void add_products(const HeadProblem& p, const QueryBlock& b, const Tile& tile, bool careful,
                  std::size_t dim, const float* factor, const float* queries, float* to_keys,
                  const cpu::Rows& keys, float* to_queries) {
  to_keys += tile.first * dim;
  const float* rows = to_queries != nullptr ? keys.data + tile.first * keys.stride : nullptr;
  if (!careful || !tile.masked) {
    multiply<true>({factor, kQueryBlock, 1}, {queries, dim}, {to_keys, dim}, tile.count, dim,
                   kQueryBlock);
    if (rows == nullptr) return;
    multiply<true>({factor, 1, kQueryBlock}, {rows, keys.stride}, {to_queries, dim}, kQueryBlock,
                   dim, tile.count);
    return;
  }
  for_visible_pairs(p, b, tile, [&](std::size_t j, std::size_t r) {
    const float f = factor[j * kQueryBlock + r];
    add_scaled(f, queries + r * dim, dim, to_keys + j * dim);
    if (rows != nullptr) add_scaled(f, rows + j * keys.stride, dim, to_queries + r * dim);
  });
}

// The products that use a tile's weights and score gradients.
void accumulate_tile(const HeadProblem& p, const QueryBlock& b, const Tile& tile, bool careful,
                     const BackwardInputs& in, Workspace& w, const BackwardOutputs& out) {
  const std::size_t dim = p.padded_dim;
  add_products(p, b, tile, careful, p.padded_value_dim, w.scores.data(), in.grad_out, out.dv, {},
               nullptr);
  if (!has_chain(p)) {
    add_products(p, b, tile, careful, dim, w.dscores.data(), b.rows, out.dk, p.k, out.dq);
  } else if (!is_passed(p, b, tile)) {
    meet_backward(p, b, tile, w, out);
  } else {
    lanes_to_rows(w.q_transposed.data(), p.dim, p.padded_dim, w.chain_rows.data());
    const bool careful_too = careful || !chain_is_finite(p, tile, w, out.dq);
    pass_backward(p, b, tile, careful_too, w, out);
    add_products(p, b, tile, careful_too, dim, w.dscores.data(), w.chain_rows.data(),
                 out.dchain_keys, p.chain.keys, out.dq);
  }
}

// Gates from gate keys or values: their logits are products with plain queries.
void accumulate_gates(const HeadProblem& p, const QueryBlock& b, const Tile& tile, bool careful,
                      Workspace& w, const BackwardOutputs& out) {
  for (std::size_t i = 0; i < tile.count * kQueryBlock; ++i) w.gate_logits[i] *= p.cope.gate_scale;
  add_products(p, b, tile, careful, p.padded_dim, w.gate_logits.data(), b.plain, out.dgate_keys,
               p.cope.gate_keys, out.dq_plain);
}

// What the rows carry into the keys of the problem.
std::array<float, kCarry> carry_of(const HeadProblem& p, const BackwardInputs& in) {
  std::array<float, kCarry> carry = first_carry(p);
  if (in.carry != nullptr) std::copy_n(in.carry, kCarry, carry.begin());
  return carry;
}

// What the rows carry into a tile; null where nothing is carried.
float* carry_into(Workspace& w, std::size_t tile) {
  return w.carries.empty() ? nullptr : w.carries.data() + tile * kCarry;
}

// Walks down once to find what is left of the sticks where each tile starts.
void find_sticks(const HeadProblem& p, const QueryBlock& b, const BackwardInputs& in,
                 const KeyRange& range, Workspace& w) {
  std::array<float, kCarry> carry = carry_of(p, in);
  PerQuery maximum;
  const PerQuery no_logit{};
  for (std::size_t t = range.end_tile; t-- > range.first_tile;) {
    std::copy(carry.begin(), carry.end(), carry_into(w, t));
    const Tile tile = tile_at(p, b, t);
    if (has_chain(p)) load_top(p, t, w);
    maximum.fill(-kInfinity);
    scores_of(p, b, tile, w, no_logit, false, 0, carry.data(), maximum.data());
    break_tile<false>(p, tile, w, carry.data());
  }
}

// Walks down once to find the gate sum with which each tile starts; returns the first tile (counted
// from below) that is not saturated.
std::size_t find_carries(const HeadProblem& p, const QueryBlock& b, const BackwardInputs& in,
                         const KeyRange& range, Workspace& w) {
  std::array<float, kCarry> carry = carry_of(p, in);
  PerQuery maximum;
  const PerQuery no_logit{};
  maximum.fill(-kInfinity);
  const bool stops_counting = may_saturate(p, range);
  for (std::size_t t = range.end_tile; t-- > range.first_tile;) {
    std::copy(carry.begin(), carry.end(), carry_into(w, t));
    if (stops_counting && saturated(p, carry.data())) return t + 1;
    if (has_chain(p)) load_top(p, t, w);
    scores_of(p, b, tile_at(p, b, t), w, no_logit, false, 0, carry.data(), maximum.data());
  }
  return range.first_tile;
}

// Tiles that nothing is computed for have no gradient.
void clear_skipped(const HeadProblem& p, const QueryBlock& b, const KeyRange& range, Workspace& w) {
  constexpr std::size_t kTile = kKeyBlock * kQueryBlock;
  const std::size_t first = visible_tiles(p, b).first_tile;
  std::fill_n(w.dpairs.data() + first * kTile, (range.first_tile - first) * kTile, 0.0f);
}

void backward_block_simd(const HeadProblem& p, const QueryBlock& b, const BackwardInputs& in,
                         Workspace& w, const BackwardOutputs& out) {
  const bool has_cope = p.cope.npos > 0;
  transpose(b.rows, p.dim, p.padded_dim, w.q_transposed.data());
  transpose(in.grad_out, p.value_dim, p.padded_value_dim, w.g_transposed.data());
  std::fill_n(out.dq, kQueryBlock * p.padded_dim, 0.0f);
  if (out.dq_plain != nullptr) std::fill_n(out.dq_plain, kQueryBlock * p.padded_dim, 0.0f);
  if (p.fire.segments > 0) {
    std::fill_n(out.dfire_psi, kQueryBlock, 0.0f);
    std::fill_n(out.dfire_scale, kQueryBlock, 0.0f);
  }
  const KeyRange range = kept_tiles(p, b);
  if (has_chain(p)) find_tops(p, b, range, w);
  std::size_t first_counting = range.first_tile;
  PerQuery last_logit{};
  if (has_cope) {
    fill_tables(p, b, w);
    last_entries(p, w, last_logit);
    std::fill(w.dtables.begin(), w.dtables.end(), 0.0f);
    if (p.cope.gate_keys.data != nullptr) {
      transpose(b.plain, p.dim, p.padded_dim, w.plain_transposed.data());
      for (float& x : w.plain_transposed) x *= p.cope.gate_scale;
    }
    first_counting = find_carries(p, b, in, range, w);
  }
  if (p.relative.channels > 0) {
    fill_products(p, b, w);
    std::fill(w.dsheared.begin(), w.dsheared.end(), 0.0f);
    std::fill_n(out.drelative_rows, kQueryBlock * p.relative.channel_stride, 0.0f);
  }
  if (p.breaks_sticks) find_sticks(p, b, in, range, w);
  if (p.has_pairs) clear_skipped(p, b, range, w);
  const bool finite_queries = queries_are_finite(p, b, in);
  PerQuery prefix{};
  if (in.prefix != nullptr) std::copy_n(in.prefix, kQueryBlock, prefix.begin());
  PerQuery ignored;
  for (std::size_t t = range.first_tile; t < range.end_tile; ++t) {
    const Tile tile = tile_at(p, b, t);
    const bool is_saturated = has_cope && t < first_counting;
    const bool careful = !finite_queries || !keys_are_finite(p, tile);
    ignored.fill(-kInfinity);
    if (has_chain(p)) load_top(p, t, w);
    scores_of(p, b, tile, w, last_logit, is_saturated, kKeepPositions, carry_into(w, t),
              ignored.data());
    tile_product(p.v, tile, p.value_dim, w.g_transposed.data(), w.dscores.data());
    if (p.breaks_sticks) {
      shares_and_dscores(p, b, tile, in, w, carry_into(w, t), prefix.data());
    } else {
      weights_and_dscores(p, b, tile, in, w);
    }
    clear_unseen(p, b, tile, w.scores.data());
    clear_unseen(p, b, tile, w.dscores.data());
    if (has_cope && is_saturated) add_last_entries(p, tile, w);
    const bool counts = has_cope && !is_saturated;
    if (counts) {
      cope_backward_tile(p, tile, w, prefix.data());
      clear_unseen(p, b, tile, w.gate_logits.data());
    }
    const bool gates_from_scores = counts && p.cope.gate_keys.data == nullptr;
    if (out.dtoeplitz != nullptr) {
      add_diagonals(p, b, tile, w.dscores.data(), out.dtoeplitz);
      if (counts && p.cope.sees_bias)
        add_diagonals(p, b, tile, w.gate_logits.data(), out.dtoeplitz);
    }
    if (p.relative.channels > 0) add_products_gradient(p, b, tile, w);
    if (p.has_pairs) {
      std::copy_n(w.dscores.data(), tile.count * kQueryBlock,
                  w.dpairs.data() + tile.first * kQueryBlock);
    }
    if (out.dtoken_sums != nullptr) {
      add_token_sums(p, b, tile, w.dscores.data(), out.dtoken_sums, out.dtoken_queries);
    }
    if (p.fire.segments > 0) {
      fire_backward_tile(p, b, tile, w.dscores.data(), out);
      if (counts && p.cope.sees_bias) fire_backward_tile(p, b, tile, w.gate_logits.data(), out);
    }
    if (gates_from_scores) add_tiles(tile.count, w.gate_logits.data(), w.dscores.data());
    accumulate_tile(p, b, tile, careful, in, w, out);
    if (counts && !gates_from_scores) accumulate_gates(p, b, tile, careful, w, out);
  }
  if (has_cope) finish_tables(p, b, w, out);
  if (p.relative.channels > 0) finish_products(p, b, w, out);
  if (in.prefix != nullptr) std::copy(prefix.begin(), prefix.end(), in.prefix);
}

}  // namespace
}  // namespace posenc::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace posenc::cpu {

HWY_EXPORT(backward_block_simd);

void attention_backward_block(const HeadProblem& problem, const QueryBlock& block,
                              const BackwardInputs& in, Workspace& space,
                              const BackwardOutputs& out) {
  HWY_DYNAMIC_DISPATCH(backward_block_simd)(problem, block, in, space, out);
}

}  // namespace posenc::cpu
#endif  // HWY_ONCE
