// Backward of PaTH and Wall in a block of queries (ChainProblem): tiles are processed from the first key to the last, and
// BackwardOutputs::dq is the gradient of the queries past the tile, then above it. Included once per target.
#if defined(POSENC_KERNELS_CPU_CHAIN_GRADIENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POSENC_KERNELS_CPU_CHAIN_GRADIENTS_INL_H_
#undef POSENC_KERNELS_CPU_CHAIN_GRADIENTS_INL_H_
#else
#define POSENC_KERNELS_CPU_CHAIN_GRADIENTS_INL_H_
#endif

#include "kernels/cpu/attention_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace posenc::HWY_NAMESPACE {

using cpu::BackwardOutputs;

// [dim][kQueryBlock] to [kQueryBlock][padded_dim].
inline void lanes_to_rows(const float* lanes, std::size_t dim, std::size_t padded_dim,
                          float* rows) {
  for (std::size_t r = 0; r < kQueryBlock; ++r) {
    for (std::size_t c = 0; c < dim; ++c) rows[r * padded_dim + c] = lanes[c * kQueryBlock + r];
  }
}

// Queries above every tile, kept in chain_tops.
inline void find_tops(const HeadProblem& p, const QueryBlock& b, const KeyRange& range,
                      Workspace& w) {
  const std::size_t size = p.dim * kQueryBlock;
  for (std::size_t t = range.end_tile; t-- > range.first_tile;) {
    const Tile tile = tile_at(p, b, t);
    std::copy_n(w.q_transposed.data(), size, w.chain_tops.data() + t * size);
    if (t == range.first_tile) return;
    if (!is_passed(p, b, tile)) {
      std::copy_n(w.q_transposed.data(), size, w.chain_next.data());
      for (std::size_t j = tile.count; j-- > 0;) {
        make_step(p, b, tile.first + j, w.chain_next.data(), w.chain_next.data(),
                  w.chain_along.data());
      }
    }
    pass_tile(p, b, tile, w);
  }
}

inline void load_top(const HeadProblem& p, std::size_t tile, Workspace& w) {
  const std::size_t size = p.dim * kQueryBlock;
  std::copy_n(w.chain_tops.data() + tile * size, size, w.q_transposed.data());
}

inline const float* matrix_of(const HeadProblem& p, const Tile& tile) {
  return p.chain.tiles + tile.first / kKeyBlock * p.chain.tile_size(p.dim, p.padded_dim);
}

// Whether what the backward of a passed tile multiplies holds neither NaN nor infinity.
inline bool chain_is_finite(const HeadProblem& p, const Tile& tile, const Workspace& w,
                            const float* dq) {
  const std::size_t rows = p.chain.kind == ChainKind::kHouseholder ? p.dim : 1;
  return all_finite(p.chain.keys.data + tile.first * p.chain.keys.stride, p.chain.keys.stride,
                    tile.count, p.padded_dim) &&
         all_finite(matrix_of(p, tile), p.padded_dim, rows, p.padded_dim) &&
         all_finite(w.chain_rows.data(), p.padded_dim, kQueryBlock, p.padded_dim) &&
         all_finite(dq, p.padded_dim, kQueryBlock, p.padded_dim);
}

inline bool is_zero_row(const float* row, std::size_t size) {
  return std::all_of(row, row + size, [](float x) { return x == 0.0f; });
}

// One row of queries past a tile: the gradient of the tile's matrix, and that above the tile in place. A row without a
// gradient sees no key below, and may be NaN.
inline void pass_row_backward(const HeadProblem& p, const Tile& tile, const float* y, float* dy,
                              float* above, float* dmatrix) {
  if (is_zero_row(dy, p.dim)) return;
  const float* matrix = matrix_of(p, tile);
  if (p.chain.kind == ChainKind::kGates) {
    for (std::size_t c = 0; c < p.dim; ++c) {
      dmatrix[c] += dy[c] * y[c];
      dy[c] = without_faded(dy[c] * matrix[c], kFadedGradient);
    }
    return;
  }
  std::fill_n(above, p.padded_dim, 0.0f);
  for (std::size_t c = 0; c < p.dim; ++c) {
    add_scaled(dy[c], y, p.padded_dim, dmatrix + c * p.padded_dim);
    add_scaled(dy[c], matrix + c * p.padded_dim, p.padded_dim, above);
  }
  std::copy_n(above, p.padded_dim, dy);
}

// The rows of the queries above the tile are in chain_rows.
inline void pass_backward(const HeadProblem& p, const QueryBlock& b, const Tile& tile, bool careful,
                          Workspace& w, const BackwardOutputs& out) {
  const std::size_t dim = p.padded_dim;
  float* dmatrix = out.dchain_tiles + (matrix_of(p, tile) - p.chain.tiles);
  if (careful || p.chain.kind == ChainKind::kGates) {
    for (std::size_t r = 0; r < b.count; ++r) {
      pass_row_backward(p, tile, w.chain_rows.data() + r * dim, out.dq + r * dim,
                        w.chain_scratch.data(), dmatrix);
    }
    return;
  }
  multiply<true>({out.dq, 1, dim}, {w.chain_rows.data(), dim}, {dmatrix, dim}, p.dim, dim,
                 kQueryBlock);
  multiply<false>({out.dq, dim, 1}, {matrix_of(p, tile), dim}, {w.chain_scratch.data(), dim},
                  kQueryBlock, dim, p.dim);
  std::copy_n(w.chain_scratch.data(), kQueryBlock * dim, out.dq);
}

// What the lanes of a key's step have in its backward, from the first vector of Steppers on. Lanes without a gradient
// below it make no step: they may be NaN.
struct StepLanes {
  std::array<float, kQueryBlock> active{};
  std::array<float, kQueryBlock> along{};   // <w, y>
  std::array<float, kQueryBlock> dalong{};  // <w, dy>
};

inline void fill_step_lanes(const HeadProblem& p, const QueryBlock& b, std::size_t key,
                            const float* along, const float* dy, StepLanes& to) {
  const Df d;
  const Steppers steppers(p, b, key);
  const bool householder = p.chain.kind == ChainKind::kHouseholder;
  const float* step = p.chain.steps.data + key * p.chain.steps.stride;
  for (std::size_t v = steppers.first_vector(); v < kQueryBlock; v += hn::Lanes(d)) {
    auto sum = hn::Zero(d);
    auto none = hn::Eq(sum, sum);
    for (std::size_t c = 0; c < p.dim; ++c) {
      const auto g = hn::LoadU(d, dy + c * kQueryBlock + v);
      sum = hn::MulAdd(hn::Set(d, step[c]), g, sum);
      none = hn::And(none, hn::Eq(g, hn::Zero(d)));
    }
    const auto active = hn::AndNot(none, steppers.mask(v));
    hn::StoreU(hn::IfThenElseZero(active, hn::Set(d, 1.0f)), d, to.active.data() + v);
    if (!householder) continue;
    hn::StoreU(hn::IfThenElseZero(active, hn::LoadU(d, along + v)), d, to.along.data() + v);
    hn::StoreU(hn::IfThenElseZero(active, sum), d, to.dalong.data() + v);
  }
}

// The backward of a key that queries meet as `y`: of its step, then of its score. `dy` is the gradient past the step and
// becomes that above it.
template <bool kHouseholder>
void meet_key_backward(const HeadProblem& p, const QueryBlock& b, std::size_t key, const float* y,
                       const StepLanes& lanes, const float* dscores, float* dy,
                       const BackwardOutputs& out) {
  const Df d;
  const std::size_t first = Steppers(p, b, key).first_vector();
  const float* step = p.chain.steps.data + key * p.chain.steps.stride;
  const float* k = p.k.data + key * p.k.stride;
  const float factor = kHouseholder ? p.chain.factors[key] : 1.0f;
  float* dk = out.dk + key * p.padded_dim;
  float* dstep = out.dsteps + key * p.padded_dim;
  for (std::size_t c = 0; c < p.dim; ++c) {
    auto step_sum = hn::Zero(d);
    auto key_sum = hn::Zero(d);
    const auto x = hn::Set(d, kHouseholder ? factor * step[c] : step[c]);
    for (std::size_t v = first; v < kQueryBlock; v += hn::Lanes(d)) {
      const auto active = hn::Ne(hn::LoadU(d, lanes.active.data() + v), hn::Zero(d));
      const auto query = hn::LoadU(d, y + c * kQueryBlock + v);
      auto g = hn::LoadU(d, dy + c * kQueryBlock + v);
      if constexpr (kHouseholder) {
        const auto dalong = hn::LoadU(d, lanes.dalong.data() + v);
        const auto both =
            hn::MulAdd(hn::LoadU(d, lanes.along.data() + v), g, hn::Mul(dalong, query));
        step_sum = hn::Sub(step_sum, hn::IfThenElseZero(active, both));
        g = hn::IfThenElse(active, hn::NegMulAdd(x, dalong, g), g);
      } else {
        const auto before = without_faded(d, hn::Mul(x, g), kFadedGradient);
        step_sum = hn::Add(step_sum, hn::IfThenElseZero(active, hn::Mul(before, query)));
        g = hn::IfThenElse(active, before, g);
      }
      const auto ds = hn::LoadU(d, dscores + v);
      // Ne is false for NaN on AVX, and a NaN gradient counts.
      const auto seen = hn::Not(hn::Eq(ds, hn::Zero(d)));
      key_sum = hn::Add(key_sum, hn::IfThenElseZero(seen, hn::Mul(ds, query)));
      g = hn::Add(g, hn::IfThenElseZero(seen, hn::Mul(ds, hn::Set(d, k[c]))));
      hn::StoreU(g, d, dy + c * kQueryBlock + v);
    }
    dstep[c] += factor * hn::GetLane(hn::SumOfLanes(d, step_sum));
    dk[c] += hn::GetLane(hn::SumOfLanes(d, key_sum));
  }
  if (!kHouseholder) return;
  for (std::size_t r = first; r < b.count; ++r) {
    out.dfactors[key] -= lanes.along[r] * lanes.dalong[r];
  }
}

// Queries above every kStepBlock keys of a tile, from those above the tile.
inline void find_marks(const HeadProblem& p, const QueryBlock& b, const Tile& tile, Workspace& w) {
  const std::size_t size = p.dim * kQueryBlock;
  std::copy_n(w.q_transposed.data(), size, w.chain_next.data());
  for (std::size_t block = (tile.count + kStepBlock - 1) / kStepBlock; block-- > 0;) {
    std::copy_n(w.chain_next.data(), size, w.chain_marks.data() + block * size);
    const std::size_t end = std::min((block + 1) * kStepBlock, tile.count);
    for (std::size_t j = end; block > 0 && j-- > block * kStepBlock;) {
      make_step(p, b, tile.first + j, w.chain_next.data(), w.chain_next.data(),
                w.chain_along.data());
    }
  }
}

// A tile that some query has its own token in, key by key.
inline void meet_backward(const HeadProblem& p, const QueryBlock& b, const Tile& tile, Workspace& w,
                          const BackwardOutputs& out) {
  const std::size_t size = p.dim * kQueryBlock;
  float* dy = w.chain_scratch.data();
  transpose(out.dq, p.dim, p.padded_dim, dy);
  find_marks(p, b, tile, w);
  StepLanes lanes;
  for (std::size_t first = 0; first < tile.count; first += kStepBlock) {
    const std::size_t count = std::min(kStepBlock, tile.count - first);
    const auto met = [&](std::size_t n) { return w.chain_met.data() + n * size; };
    std::copy_n(w.chain_marks.data() + first / kStepBlock * size, size, met(count - 1));
    for (std::size_t n = count; n-- > 0;) {
      make_step(p, b, tile.first + first + n, met(n), n > 0 ? met(n - 1) : w.chain_next.data(),
                w.chain_along.data() + n * kQueryBlock);
    }
    for (std::size_t n = 0; n < count; ++n) {
      const std::size_t key = tile.first + first + n;
      const float* dscores = w.dscores.data() + (first + n) * kQueryBlock;
      fill_step_lanes(p, b, key, w.chain_along.data() + n * kQueryBlock, dy, lanes);
      if (p.chain.kind == ChainKind::kHouseholder) {
        meet_key_backward<true>(p, b, key, met(n), lanes, dscores, dy, out);
      } else {
        meet_key_backward<false>(p, b, key, met(n), lanes, dscores, dy, out);
      }
    }
  }
  lanes_to_rows(dy, p.dim, p.padded_dim, out.dq);
}

}  // namespace posenc::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
