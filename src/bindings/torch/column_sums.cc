#include "torch/column_sums.h"

#ifdef POSENC_TORCH_HAS_CUDA
#include <c10/core/DeviceGuard.h>

#include "kernels/cuda/column_sums.h"
#include "torch/arguments.h"
#include "torch/cuda/stream.h"
#endif

namespace posenc::ops {

#ifdef POSENC_TORCH_HAS_CUDA
namespace {

at::Tensor sums_on_gpu(const at::Tensor& rows, DType type) {
  const c10::DeviceGuard guard(rows.device());
  const at::Tensor y = rows.contiguous();
  const auto options = y.options().dtype(at::kFloat);
  at::Tensor sums = at::empty({y.size(1)}, options);
  cuda::ColumnSums p;
  p.y = y.data_ptr();
  p.type = type;
  p.rows = y.size(0);
  p.columns = y.size(1);
  p.sums = sums.data_ptr<float>();
  const at::Tensor workspace =
      at::empty({static_cast<std::int64_t>(cuda::column_sums_bytes(p))}, options.dtype(at::kByte));
  p.workspace = workspace.data_ptr();
  cuda::column_sums(p, current_stream(y.device())).throw_if_error();
  return sums;
}

}  // namespace

at::Tensor column_sums(const at::Tensor& y, at::ScalarType type) {
  const auto stored = storage_type(y.scalar_type());
  if (!y.is_cuda() || !stored || at::GradMode::is_enabled()) return y.sum(0, false, type);
  return sums_on_gpu(y, *stored).to(type);
}

#else

at::Tensor column_sums(const at::Tensor& y, at::ScalarType type) { return y.sum(0, false, type); }

#endif

}  // namespace posenc::ops
