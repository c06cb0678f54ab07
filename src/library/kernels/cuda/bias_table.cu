#include <cuda_runtime.h>

#include "kernels/cuda/bias_table.h"

namespace posenc::cuda {
namespace {

template <class E>
__global__ void bias_table_kernel(const E formula, const ParameterStrides strides,
                                  const BiasReads reads, const DistanceTable table,
                                  const bool first) {
  const std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (n >= table.span) return;
  const int head = static_cast<int>(blockIdx.y);
  const float value = value_at(formula, strides, reads, table, head, n);
  float& out = table.values[head * table.span + n];
  out = first ? value : out + value;
}

}  // namespace

Status add_to_table(const Encoding& encoding, const BiasReads& reads, const DistanceTable& table,
                    bool first, Stream stream) noexcept {
  if (table.span == 0 || table.heads == 0) return {};
  const dim3 grid(static_cast<unsigned>((table.span + 255) / 256),
                  static_cast<unsigned>(table.heads));
  std::visit(
      [&]<class E>(const E& e) {
        if constexpr (DistanceBias<E>) {
          bias_table_kernel<E><<<grid, 256, 0, static_cast<cudaStream_t>(stream)>>>(
              e, parameter_strides(e, table.heads), reads, table, first);
        }
      },
      encoding);
  return launch_status("bias_table");
}

}  // namespace posenc::cuda
