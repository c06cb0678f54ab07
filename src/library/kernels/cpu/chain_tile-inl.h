// A chain of steps in a tile (ChainProblem): scores, and queries past the tile. Queries are kept as [dim][kQueryBlock], a
// lane each. Included once per target.
#if defined(POSENC_KERNELS_CPU_CHAIN_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POSENC_KERNELS_CPU_CHAIN_TILE_INL_H_
#undef POSENC_KERNELS_CPU_CHAIN_TILE_INL_H_
#else
#define POSENC_KERNELS_CPU_CHAIN_TILE_INL_H_
#endif

#include "kernels/cpu/gemm-inl.h"
#include "kernels/cpu/math-inl.h"
#include "kernels/cpu/score_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace posenc::HWY_NAMESPACE {

using ChainKind = cpu::ChainProblem::Kind;
using cpu::kStepBlock;

inline bool has_chain(const HeadProblem& p) { return p.chain.kind != ChainKind::kNone; }

// Whether every query of a block has passed the steps down to the end of a tile.
inline bool is_passed(const HeadProblem& p, const QueryBlock& b, const Tile& tile) {
  return static_cast<std::int64_t>(tile.first + tile.count) - 1 <=
         p.place_offset + static_cast<std::int64_t>(b.first);
}

// Lanes that make the step of a key: queries of the block at its place or after it.
class Steppers {
 public:
  Steppers(const HeadProblem& p, const QueryBlock& b, std::size_t key) : end_(b.count) {
    const std::int64_t first = static_cast<std::int64_t>(key) - p.place_offset;
    const std::int64_t in_block = first - static_cast<std::int64_t>(b.first);
    first_ = static_cast<std::size_t>(std::clamp<std::int64_t>(in_block, 0, kQueryBlock));
  }
  // Vectors with such a lane.
  [[nodiscard]] std::size_t first_vector() const {
    return first_ / hn::Lanes(Df()) * hn::Lanes(Df());
  }
  [[nodiscard]] std::size_t end() const { return first_ < end_ ? end_ : first_vector(); }
  [[nodiscard]] HWY_INLINE hn::Mask<Df> mask(std::size_t v) const {
    const Df d;
    const auto lane = hn::Iota(d, static_cast<float>(v));
    return hn::And(hn::Ge(lane, hn::Set(d, static_cast<float>(first_))),
                   hn::Lt(lane, hn::Set(d, static_cast<float>(end_))));
  }

 private:
  std::size_t first_;
  std::size_t end_;
};

// out = row of every query: SUM over channels.
HWY_INLINE void lane_products(const float* row, std::size_t dim, const float* y, std::size_t first,
                              float* out) {
  const Df d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t v = first;
  for (; v + 4 * lanes <= kQueryBlock; v += 4 * lanes) {
    auto s0 = hn::Zero(d), s1 = hn::Zero(d), s2 = hn::Zero(d), s3 = hn::Zero(d);
    for (std::size_t c = 0; c < dim; ++c) {
      const auto x = hn::Set(d, row[c]);
      const float* at = y + c * kQueryBlock + v;
      s0 = hn::MulAdd(x, hn::LoadU(d, at), s0);
      s1 = hn::MulAdd(x, hn::LoadU(d, at + lanes), s1);
      s2 = hn::MulAdd(x, hn::LoadU(d, at + 2 * lanes), s2);
      s3 = hn::MulAdd(x, hn::LoadU(d, at + 3 * lanes), s3);
    }
    hn::StoreU(s0, d, out + v);
    hn::StoreU(s1, d, out + v + lanes);
    hn::StoreU(s2, d, out + v + 2 * lanes);
    hn::StoreU(s3, d, out + v + 3 * lanes);
  }
  for (; v < kQueryBlock; v += lanes) {
    auto sum = hn::Zero(d);
    for (std::size_t c = 0; c < dim; ++c) {
      sum = hn::MulAdd(hn::Set(d, row[c]), hn::LoadU(d, y + c * kQueryBlock + v), sum);
    }
    hn::StoreU(sum, d, out + v);
  }
}

// The step of a key on the lanes that make it, from `y` to `to`, which may be the same. `along` gets the products with w.
inline void make_step(const HeadProblem& p, const QueryBlock& b, std::size_t key, const float* y,
                      float* to, float* along) {
  const Df d;
  const Steppers steppers(p, b, key);
  const float* step = p.chain.steps.data + key * p.chain.steps.stride;
  const bool householder = p.chain.kind == ChainKind::kHouseholder;
  const float factor = householder ? p.chain.factors[key] : 0.0f;
  if (householder) lane_products(step, p.dim, y, steppers.first_vector(), along);
  for (std::size_t c = 0; c < p.dim; ++c) {
    const float* from = y + c * kQueryBlock;
    float* row = to + c * kQueryBlock;
    if (from != row) std::copy_n(from, kQueryBlock, row);
    const auto x = hn::Set(d, step[c]);
    const auto scaled = hn::Set(d, factor * step[c]);
    for (std::size_t v = steppers.first_vector(); v < steppers.end(); v += hn::Lanes(d)) {
      const auto before = hn::LoadU(d, from + v);
      const auto after = householder ? hn::NegMulAdd(scaled, hn::LoadU(d, along + v), before)
                                     : without_faded(d, hn::Mul(x, before));
      hn::StoreU(hn::IfThenElse(steppers.mask(v), after, before), d, row + v);
    }
  }
}

// Scores of a tile that some query has its own token in, and queries past it in chain_next.
inline void meet_tile(const HeadProblem& p, const QueryBlock& b, const Tile& tile, Workspace& w) {
  float* y = w.chain_next.data();
  std::copy_n(w.q_transposed.data(), p.dim * kQueryBlock, y);
  for (std::size_t j = tile.count; j-- > 0;) {
    const std::size_t key = tile.first + j;
    float* scores = w.scores.data() + j * kQueryBlock;
    const std::size_t first = Steppers(p, b, key).first_vector();
    std::fill_n(scores, first, 0.0f);
    lane_products(p.k.data + key * p.k.stride, p.dim, y, first, scores);
    make_step(p, b, key, y, y, w.chain_along.data());
  }
}

// Queries past a tile, from those above it: in chain_next where the tile was met key by key.
inline void pass_tile(const HeadProblem& p, const QueryBlock& b, const Tile& tile, Workspace& w) {
  if (is_passed(p, b, tile)) {
    const float* matrix =
        p.chain.tiles + tile.first / kKeyBlock * p.chain.tile_size(p.dim, p.padded_dim);
    if (p.chain.kind == ChainKind::kHouseholder) {
      multiply<false>({matrix, p.padded_dim, 1}, {w.q_transposed.data(), kQueryBlock},
                      {w.chain_next.data(), kQueryBlock}, p.dim, kQueryBlock, p.dim);
    } else {
      const Df d;
      for (std::size_t i = 0; i < p.dim * kQueryBlock; i += hn::Lanes(d)) {
        const auto gate = hn::Set(d, matrix[i / kQueryBlock]);
        const auto query = hn::LoadU(d, w.q_transposed.data() + i);
        hn::StoreU(without_faded(d, hn::Mul(gate, query)), d, w.chain_next.data() + i);
      }
    }
    for (std::size_t c = 0; b.count < kQueryBlock && c < p.dim; ++c) {
      float* row = w.chain_next.data() + c * kQueryBlock;
      std::fill(row + b.count, row + kQueryBlock, 0.0f);  // 0 times a NaN of the matrix
    }
  }
  w.q_transposed.swap(w.chain_next);
}

}  // namespace posenc::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
