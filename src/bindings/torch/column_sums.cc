#include "torch/column_sums.h"

#ifdef POSENC_TORCH_HAS_CUDA
#include <c10/core/DeviceGuard.h>

#include "kernels/cuda/column_sums.h"
#include "torch/cuda/stream.h"
#endif

namespace posenc::ops {

#ifdef POSENC_TORCH_HAS_CUDA
namespace {

bool has_kernel(at::ScalarType type) {
  return type == at::kFloat || type == at::kBFloat16 || type == at::kHalf;
}

DType dtype_of(at::ScalarType type) {
  if (type == at::kBFloat16) return DType::kBfloat16;
  return type == at::kHalf ? DType::kFloat16 : DType::kFloat32;
}

// Both kinds of sums; x is undefined where there are no weighted ones.
std::tuple<at::Tensor, at::Tensor> sums_on_gpu(const at::Tensor& rows, const at::Tensor& inputs,
                                               const at::Tensor& mean, const at::Tensor& inverse) {
  const c10::DeviceGuard guard(rows.device());
  const at::Tensor y = rows.contiguous();
  const at::Tensor x = inputs.defined() ? inputs.contiguous() : inputs;
  const auto options = y.options().dtype(at::kFloat);
  at::Tensor sums = at::empty({y.size(1)}, options);
  at::Tensor weighted = x.defined() ? at::empty({y.size(1)}, options) : at::Tensor();
  cuda::ColumnSums p;
  p.y = y.data_ptr();
  p.type = dtype_of(y.scalar_type());
  p.rows = y.size(0);
  p.columns = y.size(1);
  p.sums = sums.data_ptr<float>();
  if (x.defined()) {
    p.x = x.data_ptr<float>();
    p.mean = mean.data_ptr<float>();
    p.inverse = inverse.data_ptr<float>();
    p.weighted = weighted.data_ptr<float>();
  }
  const at::Tensor workspace =
      at::empty({static_cast<std::int64_t>(cuda::column_sums_bytes(p))}, options.dtype(at::kByte));
  p.workspace = workspace.data_ptr();
  cuda::column_sums(p, current_stream(y.device())).throw_if_error();
  return {sums, weighted};
}

}  // namespace

at::Tensor column_sums(const at::Tensor& y, at::ScalarType type) {
  if (!y.is_cuda() || !has_kernel(y.scalar_type()) || at::GradMode::is_enabled()) {
    return y.sum(0, false, type);
  }
  return std::get<0>(sums_on_gpu(y, {}, {}, {})).to(type);
}

bool has_own_column_sums(const at::Tensor& x) {
  return x.is_cuda() && x.scalar_type() == at::kFloat;
}

std::tuple<at::Tensor, at::Tensor> normalized_column_sums(const at::Tensor& y, const at::Tensor& x,
                                                          const at::Tensor& mean,
                                                          const at::Tensor& inverse) {
  return sums_on_gpu(y, x, mean, inverse);
}

#else

at::Tensor column_sums(const at::Tensor& y, at::ScalarType type) { return y.sum(0, false, type); }

bool has_own_column_sums(const at::Tensor& /*x*/) { return false; }

std::tuple<at::Tensor, at::Tensor> normalized_column_sums(const at::Tensor& /*y*/,
                                                          const at::Tensor& /*x*/,
                                                          const at::Tensor& /*mean*/,
                                                          const at::Tensor& /*inverse*/) {
  TORCH_CHECK(false, "[posenc] this build's libtorch has no CUDA");
}

#endif

}  // namespace posenc::ops
