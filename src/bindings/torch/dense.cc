#include "torch/dense.h"

#include <ATen/autocast_mode.h>
#include <torch/autograd.h>

#include <array>

#include "torch/column_sums.h"
#include "torch/torch_version.h"

namespace posenc::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr double kEpsilon = 1e-5;

// What a product of x is computed in.
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

at::Tensor rows_of(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}); }

// a b in the type of a weight.
at::Tensor product_as(const at::Tensor& a, const at::Tensor& b, at::ScalarType type) {
#if POSENC_TORCH_AT_LEAST(2, 8)
  const bool widens = type == at::kFloat && a.scalar_type() != type;
  if (widens && a.is_cuda() && !at::GradMode::is_enabled()) return at::mm(a, b, type);
#endif
  return at::mm(a, b).to(type);
}

// The type of x is settled before: autocast is off within. A derivative of the gradient needs the rounded weight
// computed again, with its own graph.
// A bias without entries is none: libtorch 1.13 takes no undefined tensors here.
struct Dense : public torch::autograd::Function<Dense> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias) {
    const c10::impl::ExcludeDispatchKeyGuard exact(c10::autocast_dispatch_keyset);
    const at::Tensor w = weight.to(x.scalar_type());
    ctx->saved_data["needs_x"] = x.requires_grad();
    ctx->saved_data["has_bias"] = bias.numel() > 0;
    ctx->save_for_backward({x, weight, w});
    const at::Tensor rows = rows_of(x);
    const at::Tensor y =
        bias.numel() > 0 ? at::addmm(bias.to(x.scalar_type()), rows, w.t()) : at::mm(rows, w.t());
    std::vector<std::int64_t> shape = x.sizes().vec();
    shape.back() = weight.size(0);
    return y.view(shape);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const c10::impl::ExcludeDispatchKeyGuard exact(c10::autocast_dispatch_keyset);
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor& x = saved[0];
    const at::Tensor& weight = saved[1];
    const at::Tensor w = at::GradMode::is_enabled() ? weight.to(x.scalar_type()) : saved[2];
    const at::Tensor dy = rows_of(gradients[0]);
    variable_list d(3);
    if (ctx->saved_data["needs_x"].toBool()) d[0] = at::mm(dy, w).view(x.sizes());
    d[1] = product_as(dy.t(), rows_of(x), weight.scalar_type());
    if (ctx->saved_data["has_bias"].toBool()) d[2] = ops::column_sums(dy, weight.scalar_type());
    return d;
  }
};

struct Norm : public torch::autograd::Function<Norm> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias) {
    const auto [y, mean, inverse] =
        at::native_layer_norm(x, weight.sizes(), weight, bias, kEpsilon);
    ctx->save_for_backward({x, weight, bias, mean, inverse});
    return y;
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor& x = saved[0];
    const at::Tensor& weight = saved[1];
    const at::Tensor& bias = saved[2];
    const at::Tensor& mean = saved[3];
    const at::Tensor& inverse = saved[4];
    const bool own_sums = ops::has_own_column_sums(x) && !at::GradMode::is_enabled();
    auto [dx, dweight, dbias] = at::native_layer_norm_backward(
        gradients[0], x, weight.sizes(), mean, inverse, weight, bias, {true, !own_sums, !own_sums});
    if (own_sums) {
      std::tie(dbias, dweight) =
          ops::normalized_column_sums(rows_of(gradients[0]), rows_of(x), mean, inverse);
    }
    return {dx, dweight, dbias};
  }
};

bool wants_gradient(const at::Tensor& x, const at::Tensor& weight) {
  return at::GradMode::is_enabled() && (x.requires_grad() || weight.requires_grad());
}

at::Tensor weight_of(const torch::nn::Linear& layer) { return layer->weight; }
at::Tensor bias_of(const torch::nn::Linear& layer) { return layer->bias; }

// Of the layers, one below the other.
at::Tensor stacked(const std::vector<torch::nn::Linear>& layers,
                   at::Tensor (*part)(const torch::nn::Linear&)) {
  if (!part(layers.front()).defined()) return {};
  std::vector<at::Tensor> parts;
  for (const auto& layer : layers) parts.push_back(part(layer));
  return at::cat(parts);
}

}  // namespace

torch::nn::Linear dense_layer(std::int64_t from, std::int64_t to, bool bias) {
  return torch::nn::Linear(torch::nn::LinearOptions(from, to).bias(bias));
}

at::Tensor dense(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  if (!wants_gradient(x, weight)) {
    return bias.defined() ? at::linear(x, weight, bias) : at::linear(x, weight);
  }
  const at::Tensor none = at::empty({0}, weight.options().requires_grad(false));
  return Dense::apply(x.to(product_type(x)), weight, bias.defined() ? bias : none);
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
  for (const auto& layer : layers) widths.push_back(layer->weight.size(0));
  return dense(x, stacked(layers, weight_of), stacked(layers, bias_of))
      .split_with_sizes(widths, -1);
}

at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const bool one_type = x.scalar_type() == weight.scalar_type();
  if (!one_type || !wants_gradient(x, weight)) {
    return at::layer_norm(x, weight.sizes(), weight, bias, kEpsilon);
  }
  return Norm::apply(x, weight, bias);
}

}  // namespace posenc::nn
