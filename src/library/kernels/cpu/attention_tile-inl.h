// Shared by the forward and backward of attention: the scores of a tile with all modifiers. Included
// once per target.
#if defined(POSENC_KERNELS_CPU_ATTENTION_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POSENC_KERNELS_CPU_ATTENTION_TILE_INL_H_
#undef POSENC_KERNELS_CPU_ATTENTION_TILE_INL_H_
#else
#define POSENC_KERNELS_CPU_ATTENTION_TILE_INL_H_
#endif

#include <array>

#include "kernels/cpu/chain_tile-inl.h"
#include "kernels/cpu/gemm-inl.h"
#include "kernels/cpu/score_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace posenc::HWY_NAMESPACE {

using PerQuery = std::array<float, kQueryBlock>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// [kQueryBlock][padded_dim] to [dim][kQueryBlock].
inline void transpose(const float* rows, std::size_t dim, std::size_t padded_dim, float* out) {
  for (std::size_t r = 0; r < kQueryBlock; ++r) {
    for (std::size_t c = 0; c < dim; ++c) out[c * kQueryBlock + r] = rows[r * padded_dim + c];
  }
}

// tile = rows of keys x transposed queries.
inline void tile_product(const cpu::Rows& keys, const Tile& tile, std::size_t dim,
                         const float* transposed, float* out) {
  multiply<false>({keys.data + tile.first * keys.stride, keys.stride, 1}, {transposed, kQueryBlock},
                  {out, kQueryBlock}, tile.count, kQueryBlock, dim);
}

inline int mods_of(const HeadProblem& p, const Tile& tile) {
  const bool biased =
      p.toeplitz != nullptr || p.token_key != nullptr || p.relative.channels > 0 || p.has_pairs;
  return (biased ? kBias : 0) | (p.fire.segments > 0 ? kFire : 0) | (tile.masked ? kMasked : 0);
}

inline void split(double x, float& whole, float& rest) {
  whole = static_cast<float>(x);
  rest = static_cast<float>(x - static_cast<double>(whole));
}

// c_i - c_j of a tile, as a part of the query and one of the key.
inline void fill_token_terms(const HeadProblem& p, const QueryBlock& b, const Tile& tile,
                             Workspace& w) {
  if (p.token_key == nullptr) return;
  const std::int64_t first = p.place_offset + static_cast<std::int64_t>(b.first);
  const double base = p.token_sum(first);
  for (std::size_t r = 0; r < b.count; ++r) {
    const double sum = p.token_sum(first + static_cast<std::int64_t>(r));
    split(sum - base, w.query_terms[r], w.query_rests[r]);
  }
  for (std::size_t j = 0; j < tile.count; ++j) {
    split(base - p.token_key[tile.first + j], w.key_terms[j], w.key_rests[j]);
  }
}

// z of every query of the block, with one entry more than there are positions: at the last one the
// segment above is flat.
inline void fill_tables(const HeadProblem& p, const QueryBlock& b, Workspace& w) {
  const cpu::CopeProblem& cope = p.cope;
  if (cope.shared != nullptr) {
    for (std::size_t r = 0; r < kQueryBlock; ++r) {
      std::copy_n(cope.shared, cope.stride, w.tables.data() + r * cope.stride);
    }
  } else {
    multiply<false>({b.plain, p.padded_dim, 1}, {cope.embedding, cope.stride},
                    {w.tables.data(), cope.stride}, kQueryBlock, cope.stride, p.dim);
  }
  for (std::size_t r = 0; r < kQueryBlock; ++r) {
    float* row = w.tables.data() + r * cope.stride;
    row[cope.npos] = row[cope.npos - 1];
  }
}

// Products of every query of the block with the table, and their rows of lanes.
inline void fill_products(const HeadProblem& p, const QueryBlock& b, Workspace& w) {
  const cpu::RelativeProblem& relative = p.relative;
  multiply<false>({b.relative, relative.channel_stride, 1}, {relative.table, relative.stride},
                  {w.products.data(), relative.stride}, kQueryBlock, relative.stride,
                  relative.channels);
  const auto entries = static_cast<std::int64_t>(relative.entries());
  constexpr std::size_t kRowsAtOnce =
      16;  // whose lanes stay in cache while queries are read in turn
  for (std::size_t first = 0; first < relative.rows(); first += kRowsAtOnce) {
    const std::size_t end = std::min(first + kRowsAtOnce, relative.rows());
    for (std::size_t r = 0; r < kQueryBlock; ++r) {
      const float* row = w.products.data() + r * relative.stride;
      for (std::size_t m = first; m < end; ++m) {
        const auto entry =
            static_cast<std::int64_t>(m + r) - static_cast<std::int64_t>(kQueryBlock);
        const std::int64_t near = std::clamp<std::int64_t>(entry, 0, entries - 1);
        w.sheared[m * kQueryBlock + r] = near == entry || relative.clips ? row[near] : 0.0f;
      }
    }
  }
}

// The derivative of the bound of a score, from the bounded one; 0 where it is hidden.
HWY_INLINE hn::Vec<Df> cap_slope(const HeadProblem& p, hn::Vec<Df> score) {
  const Df d;
  const auto share = hn::Mul(score, hn::Set(d, 1.0f / p.softcap));
  const auto slope = hn::NegMulAdd(share, share, hn::Set(d, 1.0f));
  return hn::IfThenZeroElse(hn::Eq(score, hn::Set(d, -kInfinity)), slope);
}

// Initialises the loop from the query backwards.
inline std::array<float, kCarry> first_carry(const HeadProblem& p) {
  std::array<float, kCarry> carry{};
  if (p.breaks_sticks) std::fill_n(carry.begin(), kQueryBlock, 1.0f);
  return carry;
}

// Scores of a tile to shares of the stick, from its last key to its first. What is left is a product of factors below
// one: before it is too small for a float it is enlarged, and the logarithm of that is kept. With kKeep, the gates are
// sigmoids of the scores, and the slopes of their bound are kept where there is one.
template <bool kKeep>
inline void break_tile(const HeadProblem& p, const Tile& tile, Workspace& w, float* carry) {
  const Df d;
  const auto one = hn::Set(d, 1.0f);
  const auto largest =
      hn::Set(d, 40.0f);  // past it a sigmoid leaves e^-score, which may be no float
  const auto smallest = hn::Set(d, 0x1.0p-64f);
  constexpr float kLogOfRescale = 64.0f * 0.693147181f;
  for (std::size_t v = 0; v < kQueryBlock; v += hn::Lanes(d)) {
    auto left = hn::LoadU(d, carry + v);
    auto lost = hn::LoadU(d, carry + kQueryBlock + v);
    for (std::size_t j = tile.count; j-- > 0;) {
      const std::size_t at = j * kQueryBlock + v;
      const auto score = hn::LoadU(d, w.scores.data() + at);
      const auto bounded = hn::IfThenElse(hn::Gt(score, largest), largest, score);
      const auto e = fast_exp(d, hn::Neg(hn::Abs(bounded)));
      const auto larger = hn::Div(one, hn::Add(one, e));
      const auto smaller = hn::Mul(e, larger);
      const auto negative = hn::Lt(bounded, hn::Zero(d));
      const auto share = hn::IfThenElse(negative, smaller, larger);
      const auto weight = hn::Mul(share, left);
      if constexpr (kKeep) {
        hn::StoreU(share, d, w.gates.data() + at);
        if (p.softcap > 0.0f) hn::StoreU(cap_slope(p, score), d, w.cap_slopes.data() + at);
      }
      // Nothing is left where something was lost; a NaN stays one.
      const auto faded = hn::Mul(weight, hn::Zero(d));
      hn::StoreU(hn::IfThenElse(hn::Eq(lost, hn::Zero(d)), weight, faded), d, w.scores.data() + at);
      left = hn::Mul(left, hn::IfThenElse(negative, larger, smaller));
      lost = hn::Add(lost, hn::IfThenElseZero(hn::Gt(score, largest), hn::Sub(score, largest)));
      const auto faint = hn::Lt(left, smallest);
      if (hn::AllFalse(d, faint)) continue;
      left = hn::IfThenElse(faint, hn::Mul(left, hn::Set(d, 0x1.0p64f)), left);
      lost = hn::Add(lost, hn::IfThenElseZero(faint, hn::Set(d, kLogOfRescale)));
    }
    hn::StoreU(left, d, carry + v);
    hn::StoreU(lost, d, carry + kQueryBlock + v);
  }
}

// Whether rows of a tile, of `dim` channels, hold neither NaN nor infinity.
inline bool rows_are_finite(const cpu::Rows& rows, std::size_t dim, const Tile& tile) {
  return all_finite(rows.data + tile.first * rows.stride, rows.stride, tile.count, dim);
}

// Saturated tiles do not read their gates. A NaN among them must still reach the rows that see it.
inline bool may_saturate(const HeadProblem& p, const KeyRange& range) {
  const cpu::Rows& gates = p.cope.gate_keys;
  const std::size_t first = range.first_tile * kKeyBlock;
  const std::size_t end = std::min(range.end_tile * kKeyBlock, p.keys);
  return gates.data == nullptr ||
         all_finite(gates.data + first * gates.stride, gates.stride, end - first, p.padded_dim);
}

inline void last_entries(const HeadProblem& p, const Workspace& w, PerQuery& out) {
  for (std::size_t r = 0; r < kQueryBlock; ++r) {
    out[r] = w.tables[r * p.cope.stride + p.cope.npos - 1];
  }
}

// Bounds the scores of a tile and raises `maximum`. A score of -infinity is bounded, unless its key is hidden.
inline void cap_scores(const HeadProblem& p, const QueryBlock& b, const Tile& tile, float* scores,
                       float* maximum) {
  const Df d;
  const auto cap = hn::Set(d, p.softcap);
  const auto inverse = hn::Set(d, 1.0f / p.softcap);
  const auto hidden = hn::Set(d, -kInfinity);
  for (std::size_t v = 0; v < kQueryBlock; v += hn::Lanes(d)) {
    const std::int64_t place = p.place_offset + static_cast<std::int64_t>(b.first + v);
    auto highest = hn::LoadU(d, maximum + v);
    for (std::size_t j = 0; j < tile.count; ++j) {
      float* at = scores + j * kQueryBlock + v;
      auto score = hn::Mul(cap, fast_tanh(d, hn::Mul(hn::LoadU(d, at), inverse)));
      if (tile.masked) score = hn::IfThenElse(sees(p, place, tile.first + j), score, hidden);
      highest = hn::Max(highest, score);
      hn::StoreU(score, d, at);
    }
    hn::StoreU(highest, d, maximum + v);
  }
}

// Raw scores of a tile, then its modifiers. `carry` is CoPE's and may saturate.
inline void scores_of(const HeadProblem& p, const QueryBlock& b, const Tile& tile, Workspace& w,
                      const PerQuery& last_logit, bool is_saturated, int extra, float* carry,
                      float* maximum) {
  if (!has_chain(p)) {
    tile_product(p.k, tile, p.dim, w.q_transposed.data(), w.scores.data());
  } else if (is_passed(p, b, tile)) {
    tile_product(p.chain.keys, tile, p.dim, w.q_transposed.data(), w.scores.data());
  } else {
    meet_tile(p, b, tile, w);
  }
  const bool counts = p.cope.npos > 0 && !is_saturated;
  if (counts && p.cope.gate_keys.data != nullptr) {
    tile_product(p.cope.gate_keys, tile, p.dim, w.plain_transposed.data(), w.gate_logits.data());
  }
  fill_token_terms(p, b, tile, w);
  const int mods = mods_of(p, tile) | (counts ? kCope | extra : 0);
  PerQuery unbounded{};
  float* highest = p.softcap > 0.0f ? unbounded.data() : maximum;
  dispatch_mods<kPlain, kBias>(mods, p, b, tile, w, is_saturated ? last_logit.data() : nullptr,
                               carry, highest);
  if (p.softcap > 0.0f) cap_scores(p, b, tile, w.scores.data(), maximum);
}

// Multiplies each weight of a tile by what the dropout has drawn for it.
inline void drop(const HeadProblem& p, const QueryBlock& b, const Tile& tile, float* weights) {
  for (std::size_t j = 0; j < tile.count; ++j) {
    for (std::size_t r = 0; r < b.count; ++r) {
      weights[j * kQueryBlock + r] *= static_cast<float>(dropout_factor(
          p.dropout, p.batch, p.head, p.first_query + static_cast<std::int64_t>(b.first + r),
          p.first_key + static_cast<std::int64_t>(tile.first + j)));
    }
  }
}

}  // namespace posenc::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
