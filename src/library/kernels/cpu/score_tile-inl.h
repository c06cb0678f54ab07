// Applies biases, CoPE, masks and softmax to a tile of raw scores. Included once per target.
#if defined(POSENC_KERNELS_CPU_SCORE_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POSENC_KERNELS_CPU_SCORE_TILE_INL_H_
#undef POSENC_KERNELS_CPU_SCORE_TILE_INL_H_
#else
#define POSENC_KERNELS_CPU_SCORE_TILE_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/cpu/attention_simd.h"
#include "kernels/cpu/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace posenc::HWY_NAMESPACE {

using cpu::HeadProblem;
using cpu::kCarry;
using cpu::kKeyBlock;
using cpu::kQueryBlock;
using cpu::QueryBlock;
using cpu::Workspace;

using Df = hn::ScalableTag<float>;
using Vf = hn::Vec<Df>;

struct Tile {
  std::size_t first;  // key
  std::size_t count;
  bool masked;  // some query of the block does not see some key of it
};

// Keys that a block of queries may see.
struct KeyRange {
  std::size_t first_tile;
  std::size_t end_tile;  // one past the last; equal to first_tile where nothing is seen
};

// A chain starts at a query's own token, even if stick-breaking masks it.
inline KeyRange visible_tiles(const HeadProblem& p, const QueryBlock& b) {
  const bool chains = p.chain.kind != cpu::ChainProblem::Kind::kNone;
  const std::int64_t right = chains ? std::max<std::int64_t>(p.window_right, 0) : p.window_right;
  const std::int64_t lowest = p.place_offset + static_cast<std::int64_t>(b.first) - p.window_left;
  const std::int64_t highest =
      p.place_offset + static_cast<std::int64_t>(b.first + b.count) - 1 + right;
  const std::int64_t first = std::clamp<std::int64_t>(lowest, 0, static_cast<std::int64_t>(p.keys));
  const std::int64_t end =
      std::clamp<std::int64_t>(highest + 1, 0, static_cast<std::int64_t>(p.keys));
  if (end <= first) return {0, 0};
  return {static_cast<std::size_t>(first) / kKeyBlock,
          (static_cast<std::size_t>(end) + kKeyBlock - 1) / kKeyBlock};
}

// The largest norm among the queries of a block.
inline double largest_query(const HeadProblem& p, const QueryBlock& b) {
  double largest = 0.0;
  for (std::size_t r = 0; r < b.count; ++r) {
    const float* row = b.rows + r * p.padded_dim;
    double sum = 0.0;
    for (std::size_t c = 0; c < p.dim; ++c) {
      sum += static_cast<double>(row[c]) * static_cast<double>(row[c]);
    }
    largest = std::max(largest, sum);
  }
  return std::sqrt(largest);
}

// Without tiles that hold less than e^-10 of every row's weight together (fox.h). A row's own key has a score of -R at
// least, others have R less their fading at most; sums fall with the place, so the first query and the last key of a
// tile decide. NaN leaves nothing out.
inline KeyRange kept_tiles(const HeadProblem& p, const QueryBlock& b) {
  KeyRange range = visible_tiles(p, b);
  const std::int64_t place = p.place_offset + static_cast<std::int64_t>(b.first);
  if (!p.prunes || place < 0) return range;
  const double reach = 2.0 * largest_query(p, b) * static_cast<double>(p.largest_key) +
                       std::log(static_cast<double>(p.keys)) + 10.0;
  while (range.first_tile + 1 < range.end_tile) {
    const std::size_t last_key = std::min((range.first_tile + 1) * kKeyBlock, p.keys) - 1;
    if (!(p.token_sum(place) - p.token_key[last_key] < -reach)) break;
    ++range.first_tile;
  }
  return range;
}

inline Tile tile_at(const HeadProblem& p, const QueryBlock& b, std::size_t index) {
  Tile tile{index * kKeyBlock, 0, false};
  tile.count = std::min(kKeyBlock, p.keys - tile.first);
  const std::int64_t first_place = p.place_offset + static_cast<std::int64_t>(b.first);
  const std::int64_t last_place = first_place + static_cast<std::int64_t>(kQueryBlock) - 1;
  const auto first_key = static_cast<std::int64_t>(tile.first);
  const std::int64_t last_key = first_key + static_cast<std::int64_t>(tile.count) - 1;
  tile.masked = last_key > first_place + p.window_right || first_key < last_place - p.window_left;
  if (p.key_mask != nullptr && !tile.masked) {
    tile.masked = std::find(p.key_mask + tile.first, p.key_mask + tile.first + tile.count, 0) !=
                  p.key_mask + tile.first + tile.count;
  }
  return tile;
}

// CoPE along one vector of queries: the running gate sum and the segment of the table it is in. The
// sum is kept as a whole number and a fraction: gates then add to a number below one, whose rounding
// is that of the gates themselves however far the sum has come. The segment changes only where a
// fraction passes one, and is only then read again.
class CopeLanes {
 public:
  // `carry` holds kQueryBlock whole numbers, then as many fractions.
  HWY_INLINE CopeLanes(const cpu::CopeProblem& cope, const float* tables, const float* carry)
      : stride_(cope.stride), tables_(tables) {
    const Df d;
    last_ = hn::Set(d, static_cast<float>(cope.npos) - 1.0f);
    whole_ = hn::LoadU(d, carry);
    fraction_ = hn::LoadU(d, carry + kQueryBlock);
    read_segment();
  }
  HWY_INLINE void store(float* carry) const {
    hn::StoreU(whole_, Df(), carry);
    hn::StoreU(fraction_, Df(), carry + kQueryBlock);
  }

  // Counts a key with this gate, which is at most one.
  HWY_INLINE void count(Vf gate) {
    const Df d;
    const auto one = hn::Set(d, 1.0f);
    fraction_ = hn::Add(fraction_, gate);
    const auto passes = hn::Ge(fraction_, one);
    if (hn::AllFalse(d, passes)) return;
    const auto step = hn::IfThenElseZero(passes, one);
    fraction_ = hn::Sub(fraction_, step);  // exact
    whole_ = hn::Add(whole_, step);
    read_segment();
  }

  // The position of the last key counted is segment() + fraction(); past the table's last entry the
  // fraction has no meaning and no effect.
  [[nodiscard]] HWY_INLINE Vf segment() const { return hn::Min(whole_, last_); }
  [[nodiscard]] HWY_INLINE Vf fraction() const { return fraction_; }
  [[nodiscard]] HWY_INLINE Vf logit() const { return hn::MulAdd(fraction_, slope_, low_); }

 private:
  HWY_INLINE void read_segment() {
    const Df d;
    const hn::RebindToSigned<Df> di;
    const auto rows = hn::Mul(hn::Iota(di, 0), hn::Set(di, static_cast<std::int32_t>(stride_)));
    const auto index = hn::Add(rows, hn::ConvertTo(di, segment()));
    low_ = hn::GatherIndex(d, tables_, index);
    slope_ = hn::Sub(hn::GatherIndex(d, tables_ + 1, index), low_);  // 0 at the last entry
  }

  std::size_t stride_;
  const float* tables_;
  Vf last_;
  Vf whole_;
  Vf fraction_;
  Vf low_;
  Vf slope_;
};

// Stands in where there is no CoPE.
struct NoCope {
  HWY_INLINE NoCope(const cpu::CopeProblem& /*cope*/, const float* /*tables*/,
                    const float* /*carry*/) {}
};

// FIRE along one vector of queries: the piece of its piecewise linear function, read again where a
// lane leaves it.
class FireLanes {
 public:
  HWY_INLINE FireLanes(const cpu::FireProblem& fire, Vf row_scale)
      : fire_(fire), scale_(row_scale) {
    const Df d;
    low_ = hn::Set(d, std::numeric_limits<float>::infinity());  // no u is inside: read at the first
    high_ = slope_ = intercept_ = hn::Zero(d);
    segment_ = hn::Zero(hn::RebindToSigned<Df>());
  }

  // The network's input at a distance n - m, which `psi` points at.
  [[nodiscard]] HWY_INLINE Vf input(const float* psi) const {
    return hn::Mul(hn::LoadU(Df(), psi), scale_);
  }
  [[nodiscard]] HWY_INLINE bool leaves(Vf u) const {
    return !hn::AllTrue(Df(), hn::And(hn::Le(low_, u), hn::Lt(u, high_)));
  }
  HWY_INLINE void enter(Vf u) {
    const Df d;
    const hn::RebindToSigned<Df> di;
    auto index = hn::Zero(d);
    for (std::size_t s = 1; s < fire_.segments; ++s) {
      index = hn::Add(index,
                      hn::IfThenElseZero(hn::Ge(u, hn::Set(d, fire_.bounds[s])), hn::Set(d, 1.0f)));
    }
    segment_ = hn::ConvertTo(di, index);
    low_ = hn::GatherIndex(d, fire_.bounds, segment_);
    high_ = hn::GatherIndex(d, fire_.bounds + 1, segment_);
    slope_ = hn::GatherIndex(d, fire_.slopes, segment_);
    intercept_ = hn::GatherIndex(d, fire_.intercepts, segment_);
  }
  HWY_INLINE Vf bias(Vf u) {
    if (leaves(u)) enter(u);
    return hn::MulAdd(slope_, u, intercept_);
  }
  [[nodiscard]] HWY_INLINE Vf slope() const { return slope_; }
  [[nodiscard]] HWY_INLINE hn::Vec<hn::RebindToSigned<Df>> segment() const { return segment_; }

 private:
  const cpu::FireProblem& fire_;
  Vf scale_;
  Vf low_;
  Vf high_;
  Vf slope_;
  Vf intercept_;
  hn::Vec<hn::RebindToSigned<Df>> segment_;
};

// Which lanes see key m: place - left <= m <= place + right, and the key is real.
HWY_INLINE hn::Mask<Df> sees(const HeadProblem& p, std::int64_t first_place, std::size_t key) {
  const Df d;
  if (p.key_mask != nullptr && p.key_mask[key] == 0) return hn::FirstN(d, 0);
  // Lanes are numbered from 0, so bounds beyond a block need not be exact and floats hold the others.
  const std::int64_t m = static_cast<std::int64_t>(key) - first_place;
  const auto lane = hn::Iota(d, 0);
  const auto low = hn::Set(d, static_cast<float>(m - p.window_right));
  const auto high = hn::Set(d, static_cast<float>(m + p.window_left));
  return hn::And(hn::Ge(lane, low), hn::Le(lane, high));
}

inline bool sees_key(const HeadProblem& p, const QueryBlock& b, std::size_t row, std::size_t key) {
  return p.sees(p.place_offset + static_cast<std::int64_t>(b.first + row),
                static_cast<std::int64_t>(key));
}

inline bool sees_any_key(const HeadProblem& p, const QueryBlock& b, std::size_t row) {
  for (std::size_t key = 0; key < p.keys; ++key) {
    if (sees_key(p, b, row, key)) return true;
  }
  return false;
}

// Calls body(j, r) for key j of a tile and every query r of the block that sees it.
template <class Body>
inline void for_visible_pairs(const HeadProblem& p, const QueryBlock& b, const Tile& tile,
                              const Body& body) {
  for (std::size_t j = 0; j < tile.count; ++j) {
    for (std::size_t r = 0; r < b.count; ++r) {
      if (sees_key(p, b, r, tile.first + j)) body(j, r);
    }
  }
}

// What a pass over a tile adds to raw scores; each combination is compiled on its own.
enum Mods : int {
  kPlain = 0,
  kBias =
      1,  // a table of distances, a token term, products with distances, pairs, or several of these
  kFire = 2,
  kCope = 4,
  kMasked = 8,
  kKeepPositions = 16
};

// Adds the modifiers to the raw scores of a tile, from its last key to its first, and raises `maximum`.
// With CoPE, `carry` goes on from tile to tile; saturated rows add the table's last entry instead
// (`row_logit`, when given).
template <int kMods>
HWY_NOINLINE void modify_scores(const HeadProblem& p, const QueryBlock& b, const Tile& tile,
                                Workspace& w, const float* row_logit, float* carry,
                                float* maximum) {
  const Df d;
  const auto hidden = hn::Set(d, -std::numeric_limits<float>::infinity());
  const std::int64_t block_place = p.place_offset + static_cast<std::int64_t>(b.first);
  for (std::size_t v = 0; v < kQueryBlock; v += hn::Lanes(d)) {
    const std::int64_t place = p.place_offset + static_cast<std::int64_t>(b.first + v);
    std::conditional_t<(kMods & kCope) != 0, CopeLanes, NoCope> cope(
        p.cope, w.tables.data() + v * p.cope.stride, carry + v);
    FireLanes fire(p.fire,
                   (kMods & kFire) != 0 ? hn::LoadU(d, p.fire.row_scale + place) : hn::Zero(d));
    auto highest = hn::LoadU(d, maximum + v);
    const auto row_term = hn::LoadU(d, w.query_terms.data() + v);
    const auto row_rest = hn::LoadU(d, w.query_rests.data() + v);
    const auto constant = row_logit != nullptr ? hn::LoadU(d, row_logit + v) : hn::Zero(d);
    for (std::size_t j = tile.count; j-- > 0;) {
      const std::size_t at = j * kQueryBlock + v;
      const std::size_t key = tile.first + j;
      auto score = hn::LoadU(d, w.scores.data() + at);
      auto added = constant;
      if constexpr ((kMods & kBias) != 0) {
        if (p.toeplitz != nullptr) {
          const float* bias = p.toeplitz + (place - static_cast<std::int64_t>(key));
          added = hn::Add(added, hn::LoadU(d, bias));
        }
      }
      if constexpr ((kMods & kFire) != 0) {
        const float* psi = p.fire.psi + (place - static_cast<std::int64_t>(key));
        added = hn::Add(added, fire.bias(fire.input(psi)));
      }
      hn::Mask<Df> visible;
      if constexpr ((kMods & kMasked) != 0) visible = sees(p, place, key);
      if constexpr ((kMods & kCope) != 0) {
        auto logit =
            p.cope.gate_keys.data != nullptr ? hn::LoadU(d, w.gate_logits.data() + at) : score;
        if (p.cope.sees_bias) logit = hn::Add(logit, added);
        auto gate = p.cope.open ? hn::Set(d, 1.0f) : fast_sigmoid(d, logit);
        if constexpr ((kMods & kMasked) != 0) gate = hn::IfThenElseZero(visible, gate);
        cope.count(gate);
        added = hn::Add(added, cope.logit());
        if constexpr ((kMods & kKeepPositions) != 0) {
          hn::StoreU(gate, d, w.gates.data() + at);
          hn::StoreU(cope.segment(), d, w.segments.data() + at);
          hn::StoreU(cope.fraction(), d, w.fractions.data() + at);
        }
      }
      score = hn::Add(score, added);
      if constexpr ((kMods & kBias) != 0) {
        if (p.relative.channels > 0) {
          const std::size_t row = p.relative.row(block_place - static_cast<std::int64_t>(key));
          score = hn::Add(score, hn::LoadU(d, w.sheared.data() + row * kQueryBlock + v));
        }
        if (p.has_pairs) {
          score = hn::Add(score, hn::LoadU(d, w.pairs.data() + key * kQueryBlock + v));
        }
        if (p.token_key != nullptr) {
          const auto rest = hn::Add(row_rest, hn::Set(d, w.key_rests[j]));
          const auto term = hn::Add(hn::Add(row_term, hn::Set(d, w.key_terms[j])), rest);
          score = hn::Add(score, term);
        }
      }
      if constexpr ((kMods & kMasked) != 0) score = hn::IfThenElse(visible, score, hidden);
      highest = hn::Max(highest, score);
      hn::StoreU(score, d, w.scores.data() + at);
    }
    hn::StoreU(highest, d, maximum + v);
    if constexpr ((kMods & kCope) != 0) cope.store(carry + v);
  }
}

// Chooses the compiled combination.
template <int kMods, int kBit>
HWY_INLINE void dispatch_mods(int wanted, const HeadProblem& p, const QueryBlock& b,
                              const Tile& tile, Workspace& w, const float* row_logit, float* carry,
                              float* maximum) {
  // Without CoPE there are no positions to keep.
  constexpr bool kDone = kBit > kKeepPositions || (kBit == kKeepPositions && (kMods & kCope) == 0);
  if constexpr (kDone) {
    modify_scores<kMods>(p, b, tile, w, row_logit, carry, maximum);
  } else if ((wanted & kBit) != 0) {
    dispatch_mods<kMods | kBit, kBit * 2>(wanted, p, b, tile, w, row_logit, carry, maximum);
  } else {
    dispatch_mods<kMods, kBit * 2>(wanted, p, b, tile, w, row_logit, carry, maximum);
  }
}

// Whether every query of the block has counted as far as the table goes.
HWY_INLINE bool saturated(const HeadProblem& p, const float* carry) {
  const Df d;
  const auto last = hn::Set(d, static_cast<float>(p.cope.npos - 1));
  for (std::size_t v = 0; v < kQueryBlock; v += hn::Lanes(d)) {
    if (!hn::AllTrue(d, hn::Ge(hn::LoadU(d, carry + v), last))) return false;
  }
  return true;
}

}  // namespace posenc::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
