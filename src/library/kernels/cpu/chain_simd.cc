#include "kernels/cpu/chain_simd.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/chain_simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/gemm-inl.h"
#include "kernels/cpu/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace posenc::HWY_NAMESPACE {
namespace {

using cpu::ChainTile;
using cpu::ChainTileGradients;
using Kind = cpu::ChainProblem::Kind;
using Df = hn::ScalableTag<float>;

float dot_row(const float* a, const float* b, std::size_t size) {
  const Df d;
  auto sum = hn::Zero(d);
  for (std::size_t c = 0; c < size; c += hn::Lanes(d)) {
    sum = hn::MulAdd(hn::LoadU(d, a + c), hn::LoadU(d, b + c), sum);
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

bool is_zero(const float* row, std::size_t size) {
  return std::all_of(row, row + size, [](float x) { return x == 0.0f; });
}

const float* step_at(const ChainTile& t, std::size_t s) {
  return t.steps.data + s * t.steps.stride;
}

// Row r of what a tile's steps are applied to: rows of the identity, then keys. A step concerns rows before dim + s.
struct TileRows {
  const ChainTile& tile;
  float* keys;
  float* matrix;
  [[nodiscard]] float* at(std::size_t r) const {
    return r < tile.dim ? matrix + r * tile.padded_dim : keys + (r - tile.dim) * tile.padded_dim;
  }
};

// `along` gets <w, row> of every step and row, [count][dim + count].
void apply_steps(const ChainTile& t, float* keys, float* matrix, float* along) {
  const TileRows rows{t, keys, matrix};
  std::fill_n(matrix, t.dim * t.padded_dim, 0.0f);
  for (std::size_t c = 0; c < t.dim; ++c) matrix[c * t.padded_dim + c] = 1.0f;
  for (std::size_t s = 0; s < t.count; ++s) {
    const float* w = step_at(t, s);
    for (std::size_t r = 0; r < t.dim + s; ++r) {
      const float product = dot_row(w, rows.at(r), t.padded_dim);
      if (along != nullptr) along[s * (t.dim + t.count) + r] = product;
      // Hidden keys have b = 0 and w = 0; a NaN must stay.
      add_scaled(-t.factors[s] * product, w, t.padded_dim, rows.at(r));
    }
    std::copy_n(t.k.data + s * t.k.stride, t.padded_dim, keys + s * t.padded_dim);
  }
}

void fade_keys(const ChainTile& t, float* keys, float* matrix) {
  const Df d;
  std::fill_n(matrix, t.padded_dim, 1.0f);
  for (std::size_t s = t.count; s-- > 0;) {
    const float* k = t.k.data + s * t.k.stride;
    for (std::size_t c = 0; c < t.padded_dim; c += hn::Lanes(d)) {
      const auto fade = hn::LoadU(d, matrix + c);
      const auto key = without_faded(d, hn::Mul(fade, hn::LoadU(d, k + c)));
      hn::StoreU(key, d, keys + s * t.padded_dim + c);
      const auto next = without_faded(d, hn::Mul(fade, hn::LoadU(d, step_at(t, s) + c)));
      hn::StoreU(next, d, matrix + c);
    }
  }
}

void chain_tile_simd(const ChainTile& tile, float* keys, float* matrix) {
  if (tile.kind == Kind::kHouseholder) {
    apply_steps(tile, keys, matrix, nullptr);
  } else {
    fade_keys(tile, keys, matrix);
  }
}

// The backward of step s on one row. `row` is what it was after the step and becomes what it was before: the product with
// w is known, so nothing is divided.
void step_backward(const ChainTile& t, std::size_t s, float product, float* row, float* gradient,
                   const ChainTileGradients& to) {
  const float* w = step_at(t, s);
  const float b = t.factors[s];
  add_scaled(b * product, w, t.padded_dim, row);
  if (is_zero(gradient, t.padded_dim)) return;  // what no query sees may be NaN
  const float dproduct = dot_row(w, gradient, t.padded_dim);
  float* dw = to.dsteps + s * t.padded_dim;
  add_scaled(-b * product, gradient, t.padded_dim, dw);
  add_scaled(-b * dproduct, row, t.padded_dim, dw);
  add_scaled(-b * dproduct, w, t.padded_dim, gradient);
  to.dfactors[s] -= product * dproduct;
}

void steps_backward(const ChainTile& t, const ChainTileGradients& to, float* scratch) {
  float* keys = scratch;
  float* matrix = keys + cpu::kKeyBlock * t.padded_dim;
  float* along = matrix + t.dim * t.padded_dim;
  apply_steps(t, keys, matrix, along);
  const TileRows rows{t, keys, matrix};
  const TileRows gradients{t, to.keys, to.matrix};
  for (std::size_t s = t.count; s-- > 0;) {
    add_scaled(1.0f, to.keys + s * t.padded_dim, t.padded_dim, to.dk + s * t.padded_dim);
    for (std::size_t r = 0; r < t.dim + s; ++r) {
      step_backward(t, s, along[s * (t.dim + t.count) + r], rows.at(r), gradients.at(r), to);
    }
  }
}

// From the first key to the last: `sum` is what the keys before and the matrix ask of a gate's logarithm.
void fade_backward(const ChainTile& t, const ChainTileGradients& to, float* scratch) {
  float* keys = scratch;
  float* matrix = keys + cpu::kKeyBlock * t.padded_dim;
  float* fade = matrix + t.padded_dim;
  fade_keys(t, keys, matrix);
  std::fill_n(fade, t.padded_dim, 1.0f);
  for (std::size_t s = t.count; s-- > 0;) {
    for (std::size_t c = 0; c < t.dim; ++c) {
      const std::size_t at = s * t.padded_dim + c;
      to.dk[at] += to.keys[at] == 0.0f ? 0.0f : to.keys[at] * fade[c];
      fade[c] = without_faded(fade[c] * step_at(t, s)[c]);
    }
  }
  for (std::size_t c = 0; c < t.dim; ++c) {
    float sum = to.matrix[c] == 0.0f ? 0.0f : to.matrix[c] * matrix[c];
    for (std::size_t s = 0; s < t.count; ++s) {
      const std::size_t at = s * t.padded_dim + c;
      to.dsteps[at] += sum;
      sum += to.keys[at] == 0.0f ? 0.0f : to.keys[at] * keys[at];
    }
  }
}

void chain_tile_backward_simd(const ChainTile& tile, const ChainTileGradients& gradients,
                              float* scratch) {
  if (tile.kind == Kind::kHouseholder) {
    steps_backward(tile, gradients, scratch);
  } else {
    fade_backward(tile, gradients, scratch);
  }
}

void exp_row_simd(float* row, std::size_t size) {
  const Df d;
  for (std::size_t c = 0; c < size; c += hn::Lanes(d)) {
    hn::StoreU(fast_exp(d, hn::LoadU(d, row + c)), d, row + c);
  }
}

float meet_key_simd(Kind kind, const float* key, const float* step, float factor, std::size_t size,
                    float* query) {
  const Df d;
  const float score = dot_row(key, query, size);
  if (kind == Kind::kHouseholder) {
    add_scaled(-factor * dot_row(step, query, size), step, size, query);
    return score;
  }
  for (std::size_t c = 0; c < size; c += hn::Lanes(d)) {
    const auto gate = fast_exp(d, hn::LoadU(d, step + c));
    hn::StoreU(hn::Mul(gate, hn::LoadU(d, query + c)), d, query + c);
  }
  return score;
}

}  // namespace
}  // namespace posenc::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace posenc::cpu {

HWY_EXPORT(chain_tile_simd);
HWY_EXPORT(chain_tile_backward_simd);
HWY_EXPORT(exp_row_simd);
HWY_EXPORT(meet_key_simd);

void chain_tile(const ChainTile& tile, float* keys, float* matrix) {
  HWY_DYNAMIC_DISPATCH(chain_tile_simd)(tile, keys, matrix);
}

std::size_t chain_scratch_size(std::size_t dim, std::size_t padded_dim) {
  return (kKeyBlock + dim + 2) * padded_dim + kKeyBlock * (dim + kKeyBlock);
}

void chain_tile_backward(const ChainTile& tile, const ChainTileGradients& gradients,
                         float* scratch) {
  HWY_DYNAMIC_DISPATCH(chain_tile_backward_simd)(tile, gradients, scratch);
}

void exp_row(float* row, std::size_t size) { HWY_DYNAMIC_DISPATCH(exp_row_simd)(row, size); }

float meet_key(ChainProblem::Kind kind, const float* key, const float* step, float factor,
               std::size_t padded_dim, float* query) {
  return HWY_DYNAMIC_DISPATCH(meet_key_simd)(kind, key, step, factor, padded_dim, query);
}

}  // namespace posenc::cpu
#endif  // HWY_ONCE
