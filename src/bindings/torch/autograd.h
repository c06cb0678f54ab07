// Helpers shared by the autograd functions of several operators.
#pragma once

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "torch/arguments.h"

namespace posenc::ops {

[[noreturn]] inline void refuse_double_backward(const char* op) {
  TORCH_CHECK(false, "[", op,
              "] has no second derivative; call backward without create_graph, or compose the "
              "operation from differentiable ones");
}

inline at::Tensor or_undefined(const OptionalTensor& x) { return x.value_or(at::Tensor()); }
inline OptionalTensor optional(const at::Tensor& x) {
  return x.defined() ? OptionalTensor(x) : OptionalTensor();
}

// Whether a graph must be kept; without one, autograd's own bookkeeping is skipped.
inline bool records(at::TensorList tensors) {
  if (!at::GradMode::is_enabled()) return false;
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const at::Tensor& t) { return t.defined() && t.requires_grad(); });
}

inline void save_tensors(torch::autograd::AutogradContext& ctx,
                         const torch::autograd::variable_list& tensors) {
  ctx.save_for_backward(tensors);
}

// All parameters one after the other, in float64 for float64 tensors and in float32 else, whatever the
// storage of the others: their gradients are sums over all rows. Differentiable.
inline at::Tensor joined(at::TensorList parameters, const at::Tensor& q) {
  const auto type = q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  if (parameters.empty()) return at::empty({0}, q.options().dtype(type));
  std::vector<at::Tensor> flat;
  for (const at::Tensor& p : parameters) flat.push_back(p.reshape({-1}).to(type));
  return flat.size() == 1 ? flat[0] : at::cat(flat);
}

}  // namespace posenc::ops
