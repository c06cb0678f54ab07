#include "torch/dense.h"

#include <ATen/autocast_mode.h>
#include <torch/autograd.h>

#include <algorithm>
#include <utility>

#include "torch/column_sums.h"
#include "torch/torch_version.h"

namespace posenc::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor rows_of(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}); }

// a b in the type of a weight.
at::Tensor product_as(const at::Tensor& a, const at::Tensor& b, at::ScalarType type) {
#if POSENC_TORCH_AT_LEAST(2, 8)
  const bool widens = type == at::kFloat && a.scalar_type() != type;
  if (widens && a.is_cuda() && !at::GradMode::is_enabled()) return at::mm(a, b, type);
#endif
  return at::mm(a, b).to(type);
}

// The rows of several layers, one below the other, in the type of a product.
at::Tensor stacked(at::TensorList parts, at::ScalarType type) {
  return (parts.size() == 1 ? parts[0] : at::cat(parts)).to(type);
}

thread_local WeightCopies* current_copies = nullptr;

// The same, from the copies of a training step where there are any. They are of parameters alone, which stay the same
// tensors from step to step.
at::Tensor rounded(at::TensorList parts, at::ScalarType type) {
  const bool kept = current_copies != nullptr && parts[0].scalar_type() != type &&
                    std::all_of(parts.begin(), parts.end(),
                                [](const at::Tensor& part) { return part.requires_grad(); });
  return kept ? current_copies->of(parts, type) : stacked(parts, type);
}

// Gradients of the parts of what was stacked.
void put_parts(const at::Tensor& all, at::TensorList parts, variable_list& gradients,
               std::size_t first) {
  std::int64_t row = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    gradients[first + i] = parts.size() == 1 ? all : all.narrow(0, row, parts[i].size(0));
    row += parts[i].size(0);
  }
}

// Layers that read the same x; biases of all of them or of none. The type of x is settled before: autocast is off
// within. A derivative of the gradient needs the rounded weights computed again, with their own graph.
struct Dense : public torch::autograd::Function<Dense> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, at::TensorList weights,
                            at::TensorList biases) {
    const c10::impl::ExcludeDispatchKeyGuard exact(c10::autocast_dispatch_keyset);
    const at::Tensor w = rounded(weights, x.scalar_type());
    ctx->saved_data["needs_x"] = x.requires_grad();
    ctx->saved_data["biased"] = !biases.empty();
    variable_list kept = {x, w};
    kept.insert(kept.end(), weights.begin(), weights.end());
    ctx->save_for_backward(kept);
    const at::Tensor rows = rows_of(x);
    const at::Tensor y = biases.empty() ? at::mm(rows, w.t())
                                        : at::addmm(rounded(biases, x.scalar_type()), rows, w.t());
    std::vector<std::int64_t> shape = x.sizes().vec();
    shape.back() = w.size(0);
    return y.view(shape);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const c10::impl::ExcludeDispatchKeyGuard exact(c10::autocast_dispatch_keyset);
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor& x = saved[0];
    const at::TensorList weights = at::TensorList(saved).slice(2);
    const at::ScalarType type = weights[0].scalar_type();
    const at::Tensor dy = rows_of(gradients[0]);
    const bool biased = ctx->saved_data["biased"].toBool();
    variable_list d(1 + weights.size() * (biased ? 2 : 1));
    if (ctx->saved_data["needs_x"].toBool()) {
      const at::Tensor w =
          at::GradMode::is_enabled() ? stacked(weights, x.scalar_type()) : saved[1];
      d[0] = at::mm(dy, w).view(x.sizes());
    }
    put_parts(product_as(dy.t(), rows_of(x), type), weights, d, 1);
    if (biased) put_parts(ops::column_sums(dy, type), weights, d, 1 + weights.size());
    return d;
  }
};

bool wants_gradient(const at::Tensor& x, const at::Tensor& weight) {
  return at::GradMode::is_enabled() && (x.requires_grad() || weight.requires_grad());
}

// Of the layers, zeros for those that have none; empty where no layer has one.
std::vector<at::Tensor> biases_of(const std::vector<torch::nn::Linear>& layers) {
  const bool any = std::any_of(layers.begin(), layers.end(),
                               [](const auto& layer) { return layer->bias.defined(); });
  std::vector<at::Tensor> biases;
  for (const auto& layer : layers) {
    if (!any) break;
    const at::Tensor& weight = layer->weight;
    biases.push_back(layer->bias.defined()
                         ? layer->bias
                         : at::zeros({weight.size(0)}, weight.options().requires_grad(false)));
  }
  return biases;
}

void copy_all(at::TensorList to, at::TensorList from) {
#if POSENC_TORCH_AT_LEAST(2, 4)
  at::_foreach_copy_(to, from);
#else
  for (std::size_t i = 0; i < to.size(); ++i) to[i].copy_(from[i]);
#endif
}

}  // namespace

at::ScalarType product_type(const at::Tensor& x) {
  if (x.scalar_type() == at::kDouble) return at::kDouble;
#if POSENC_TORCH_AT_LEAST(2, 4)
  const auto device = x.device().type();
  if (at::autocast::is_autocast_enabled(device)) return at::autocast::get_autocast_dtype(device);
#else
  if (x.is_cuda() && at::autocast::is_enabled()) return at::autocast::get_autocast_gpu_dtype();
  if (x.is_cpu() && at::autocast::is_cpu_enabled()) return at::autocast::get_autocast_cpu_dtype();
#endif
  return x.scalar_type();
}

at::Tensor WeightCopies::of(at::TensorList parts, at::ScalarType type) {
  const Key key(parts[0].unsafeGetTensorImpl(), parts.size());
  const auto found = copies_.find(key);
  if (found != copies_.end()) return found->second;
  const at::NoGradGuard copying;
  at::Tensor all = stacked(parts, type);
  std::int64_t row = 0;
  for (const at::Tensor& part : parts) {
    from_.push_back(part);
    to_.push_back(all.narrow(0, row, part.size(0)));
    row += part.size(0);
  }
  copies_.emplace(key, all);
  return all;
}

WeightCopies::Use::Use(WeightCopies& copies) {
  const at::NoGradGuard copying;
  if (!copies.to_.empty()) copy_all(copies.to_, copies.from_);
  before_ = std::exchange(current_copies, &copies);
}

WeightCopies::Use::~Use() { current_copies = before_; }

torch::nn::Linear dense_layer(std::int64_t from, std::int64_t to, bool bias) {
  return torch::nn::Linear(torch::nn::LinearOptions(from, to).bias(bias));
}

at::Tensor dense(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  if (!wants_gradient(x, weight)) {
    return bias.defined() ? at::linear(x, weight, bias) : at::linear(x, weight);
  }
  const at::TensorList biases = bias.defined() ? at::TensorList(bias) : at::TensorList();
  return Dense::apply(x.to(product_type(x)), at::TensorList(weight), biases);
}

at::Tensor dense(const at::Tensor& x, const torch::nn::Linear& layer) {
  return dense(x, layer->weight, layer->bias);
}

std::vector<at::Tensor> dense_parts(const at::Tensor& x,
                                    const std::vector<torch::nn::Linear>& layers) {
  std::vector<at::Tensor> outputs;
  if (!wants_gradient(x, layers.front()->weight)) {
    for (const auto& layer : layers) outputs.push_back(dense(x, layer));
    return outputs;
  }
  std::vector<std::int64_t> widths;
  std::vector<at::Tensor> weights;
  for (const auto& layer : layers) {
    weights.push_back(layer->weight);
    widths.push_back(layer->weight.size(0));
  }
  const std::vector<at::Tensor> biases = biases_of(layers);
  return Dense::apply(x.to(product_type(x)), at::TensorList(weights), at::TensorList(biases))
      .split_with_sizes(widths, -1);
}

}  // namespace posenc::nn
