// Linear attention as a few operations on rows, for any device that implements the scan
//
//   out[i] = SUM_j <a[i], b[j]> c[j]        over j <= i, j >= i, or all j
//
// and the rotation. Formulas are those of posenc/kernels/linear_attention.h and its backward; features
// and sums are float32, or float64 for float64.
#pragma once

#include <functional>

#include "torch/composed/tokens.h"

namespace posenc::ops {

enum class Sees { kEarlier, kLater, kAll };

// What a device brings. Rows are [B, H, T, *].
struct LinearDevice {
  std::function<at::Tensor(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c, Sees)>
      walk;
  // T x, or its transpose; keys of H heads.
  std::function<at::Tensor(Role, const at::Tensor& x, bool transposed)> turn;
  // Adds what gradients at T x ask of trained frequencies.
  std::function<void(Role, const at::Tensor& x, const at::Tensor& dy)> add_frequencies;
};

struct LinearRows {
  at::Tensor q, k, v;  // as given: [B, H, Tq, D], [B, Hkv, Tk, D]
  const Tokens* tokens = nullptr;
  LinearAttentionOptions options;
  bool causal = false;
};

struct LinearResult {
  at::Tensor out;
  at::Tensor sums;  // the denominators, [B, H, Tq]
};
LinearResult linear_forward(const LinearRows& rows, const LinearDevice& device);

struct LinearGradients {
  at::Tensor dq, dk, dv;
};
LinearGradients linear_backward(const LinearRows& rows, const LinearResult& forward,
                                const at::Tensor& grad_out, const LinearDevice& device);

// The scan as matrix products, for tests and for devices without a kernel: T x T scores.
at::Tensor walk_by_products(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c,
                            Sees sees);

}  // namespace posenc::ops
