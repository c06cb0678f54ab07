// The SIMD part of linear attention: a chunk of tokens against a running sum of outer products.
//
// Forward and backward are one operation with different rows:
//
//   out_r  = SUM_s <a_r, b_s> w_s + a_r State      over the rows s of the chunk that r sees
//   State += SUM_s b_s w_s^T
//
//            a   b   w   State               sees
//   out      q'  k'  v   SUM_j k'_j v_j^T    s <= r
//   dq'      g   v   k'  SUM_j v_j k'_j^T    s <= r
//   dk'      v   g   q'  SUM_i g_i q'_i^T    s >= r
//   dv       k'  q'  g   SUM_i q'_i g_i^T    s >= r
//
// with g_i = grad_out_i / denominator_i.
#pragma once

#include <cstddef>
#include <vector>

#include "core/aligned.h"

namespace posenc::cpu {

// Tokens that are multiplied with each other before they go into the sum.
inline constexpr std::size_t kTokenChunk = 64;

// Floats from one row to the next. The same for every target, so that a state outlives a change of
// it.
constexpr std::size_t row_floats(std::size_t channels) noexcept {
  return (channels + 15) / 16 * 16;
}

enum class Sees { kNone, kEarlier, kLater };  // which rows of its own chunk; both with itself

// Channels of a and b, and of w and out.
struct ScanShape {
  std::size_t depth;
  std::size_t columns;
  [[nodiscard]] std::size_t state_floats() const noexcept { return depth * row_floats(columns); }
};

// Rows lie row_floats apart; `state` is [depth][row_floats(columns)].
struct ScanRows {
  const float* a;
  const float* b;  // not read where nothing of the chunk is seen
  const float* w;
};

struct ScanScratch {
  explicit ScanScratch(std::size_t channels);
  AlignedFloats transposed;  // [depth][kTokenChunk]
  AlignedFloats scores;      // [kTokenChunk][kTokenChunk]
  AlignedFloats product;     // [depth][row_floats(columns)]
};

void scan_apply(const ScanShape& shape, const ScanRows& rows, std::size_t count, Sees sees,
                const float* state, ScanScratch& scratch, float* out) noexcept;
void scan_accumulate(const ScanShape& shape, const ScanRows& rows, std::size_t count,
                     ScanScratch& scratch, float* state) noexcept;

// out_r = sum + SUM_{s <= r} weight_s row_s (s >= r for kLater); then sum takes the last of them.
// Without weights they are 1.
void running_sums(const float* rows, const float* weights, std::size_t count, std::size_t channels,
                  Sees sees, float* sum, float* out) noexcept;

struct PhiPlan {
  bool relu;
  float epsilon;
};
// phi(x), and dx *= phi'(x).
void phi_row(const PhiPlan& plan, const float* x, std::size_t size, float* out) noexcept;
void phi_slope_row(const PhiPlan& plan, const float* x, std::size_t size, float* dx) noexcept;

float dot_rows(const float* a, const float* b, std::size_t size) noexcept;
// y = factor x, and y += factor x.
void scale_row(float factor, const float* x, std::size_t size, float* y) noexcept;
void add_scaled_row(float factor, const float* x, std::size_t size, float* y) noexcept;

}  // namespace posenc::cpu
