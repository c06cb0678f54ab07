#include "torch/residual_norm.h"

#include <torch/autograd.h>

#include "torch/arguments.h"
#include "torch/dense.h"

#ifdef POSENC_TORCH_HAS_CUDA
#include <c10/core/DeviceGuard.h>

#include "kernels/cuda/residual_norm.h"
#include "torch/cuda/stream.h"
#endif

namespace posenc::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

#ifdef POSENC_TORCH_HAS_CUDA

// The kernel's branch and output have one type.
bool has_kernel(const at::Tensor& x, const at::Tensor& branch, const at::Tensor& weight) {
  const auto type = product_type(x);
  return x.is_cuda() && x.numel() > 0 && x.scalar_type() == at::kFloat &&
         weight.scalar_type() == at::kFloat && ops::storage_type(type) &&
         cuda::has_residual_norm(x.size(-1)) && (!branch.defined() || branch.scalar_type() == type);
}

// The backward pass reads no epsilon: it is in the inverse deviation.
cuda::ResidualNorm arguments(const at::Tensor& x, const at::Tensor& weight, at::ScalarType type,
                             const at::Tensor& mean, const at::Tensor& inverse) {
  cuda::ResidualNorm p;
  p.columns = x.size(-1);
  p.rows = x.numel() / p.columns;
  p.type = *ops::storage_type(type);
  p.x = x.data_ptr<float>();
  p.weight = weight.data_ptr<float>();
  p.mean = mean.data_ptr<float>();
  p.inverse = inverse.data_ptr<float>();
  return p;
}

struct Statistics {
  at::Tensor mean, inverse;
};

// Fills sum (with a branch) and y.
Statistics run_forward(const at::Tensor& x, const at::Tensor& branch, const at::Tensor& weight,
                       const at::Tensor& bias, double epsilon, const at::Tensor& sum,
                       const at::Tensor& y) {
  const c10::DeviceGuard guard(x.device());
  const Statistics s{at::empty({x.numel() / x.size(-1)}, x.options()),
                     at::empty({x.numel() / x.size(-1)}, x.options())};
  cuda::ResidualNorm p = arguments(x, weight, y.scalar_type(), s.mean, s.inverse);
  p.epsilon = static_cast<float>(epsilon);
  p.bias = bias.data_ptr<float>();
  p.y = y.data_ptr();
  if (branch.defined()) {
    p.branch = branch.data_ptr();
    p.sum = sum.data_ptr<float>();
  }
  cuda::residual_norm(p, ops::current_stream(x.device())).throw_if_error();
  return s;
}

struct Gradients {
  at::Tensor x, branch, weight, bias;
};

Gradients run_backward(const at::Tensor& dy, const at::Tensor& dsum, const at::Tensor& sum,
                       const at::Tensor& weight, const Statistics& s, bool has_branch) {
  const c10::DeviceGuard guard(sum.device());
  cuda::ResidualNormGradients g;
  g.forward = arguments(sum, weight, dy.scalar_type(), s.mean, s.inverse);
  Gradients d{.x = at::empty_like(sum), .branch = {}, .weight = {}, .bias = {}};
  const bool rounded = has_branch && dy.scalar_type() != at::kFloat;
  d.branch = rounded ? at::empty_like(dy) : d.x;
  const at::Tensor vectors = at::empty({2, sum.size(-1)}, sum.options());
  const at::Tensor workspace =
      at::empty({static_cast<std::int64_t>(cuda::residual_norm_bytes(g.forward))},
                sum.options().dtype(at::kByte));
  g.dy = dy.data_ptr();
  g.dsum = dsum.defined() ? dsum.data_ptr<float>() : nullptr;
  g.dx = d.x.data_ptr<float>();
  g.dbranch = rounded ? d.branch.data_ptr() : nullptr;
  g.dvectors = vectors.data_ptr<float>();
  g.workspace = workspace.data_ptr();
  cuda::residual_norm_backward(g, ops::current_stream(sum.device())).throw_if_error();
  d.bias = vectors.select(0, 0);
  d.weight = vectors.select(0, 1);
  return d;
}

at::Tensor dense_or_undefined(const at::Tensor& x) { return x.defined() ? x.contiguous() : x; }

// Of contiguous tensors. A branch without entries is none: libtorch 1.13 takes no undefined tensors here. Returns the
// normalized rows, and the sum where there is a branch.
struct Fused : public torch::autograd::Function<Fused> {
  static variable_list forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& branch,
                               const at::Tensor& weight, const at::Tensor& bias, double epsilon) {
    const bool adds = branch.numel() > 0;
    const at::Tensor sum = adds ? at::empty_like(x) : x;
    const at::Tensor y = at::empty(x.sizes(), x.options().dtype(product_type(x)));
    const Statistics s =
        run_forward(x, adds ? branch : at::Tensor(), weight, bias, epsilon, sum, y);
    ctx->set_materialize_grads(false);
    ctx->saved_data["type"] = y.scalar_type();
    ctx->saved_data["adds"] = adds;
    ctx->save_for_backward({sum, weight, bias, s.mean, s.inverse});
    return adds ? variable_list{y, sum} : variable_list{y};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const bool adds = ctx->saved_data["adds"].toBool();
    const at::Tensor dsum = adds ? gradients[1] : at::Tensor();
    const at::Tensor& dy = gradients[0];
    if (!dy.defined()) {
      const auto type = ctx->saved_data["type"].toScalarType();
      return {dsum, dsum.defined() ? dsum.to(type) : dsum, at::Tensor(), at::Tensor(),
              at::Tensor()};
    }
    const Gradients d = at::GradMode::is_enabled()
                            ? composed(dy, dsum, saved)
                            : run_backward(dy.contiguous(), dense_or_undefined(dsum), saved[0],
                                           saved[1], {saved[3], saved[4]}, adds);
    return {d.x, adds ? d.branch : at::Tensor(), d.weight, d.bias, at::Tensor()};
  }

  // With a separate graph, for double backward.
  static Gradients composed(const at::Tensor& dy, const at::Tensor& dsum,
                            const variable_list& saved) {
    const auto& [sum, weight, bias, mean, inverse] =
        std::tie(saved[0], saved[1], saved[2], saved[3], saved[4]);
    auto [dx, dweight, dbias] = at::native_layer_norm_backward(
        dy.to(at::kFloat), sum, weight.sizes(), mean, inverse, weight, bias, {true, true, true});
    if (dsum.defined()) dx = dx + dsum;
    return {dx, dx.to(dy.scalar_type()), dweight, dbias};
  }
};

#endif

}  // namespace

ResidualNorm residual_norm(const at::Tensor& x, const at::Tensor& branch, const at::Tensor& weight,
                           const at::Tensor& bias, double epsilon) {
#ifdef POSENC_TORCH_HAS_CUDA
  if (has_kernel(x, branch, weight)) {
    const at::Tensor none = at::empty({0}, x.options().requires_grad(false));
    const variable_list found = Fused::apply(
        x.contiguous(), branch.defined() ? branch.contiguous() : none, weight, bias, epsilon);
    return {branch.defined() ? found[1] : x, found[0]};
  }
#endif
  const at::Tensor sum = branch.defined() ? x + branch : x;
  return {sum, at::layer_norm(sum, weight.sizes(), weight, bias, epsilon)};
}

}  // namespace posenc::nn
