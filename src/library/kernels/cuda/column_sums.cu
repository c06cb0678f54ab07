#include <cuda_runtime.h>

#include <algorithm>

#include "kernels/cuda/column_sums.h"
#include "kernels/cuda/device/dispatch.h"
#include "kernels/cuda/device/elements.cuh"

namespace posenc::cuda {
namespace {

constexpr int kColumns = 32;      // of a block, one per thread of a warp
constexpr int kLanes = 8;         // warps, which share the block's rows
constexpr int kRowsOfBlock = 64;  // as long as that gives no more shares than kMostShares
constexpr std::int64_t kMostShares = 256;

std::int64_t shares_of(const ColumnSums& p) {
  return std::clamp<std::int64_t>((p.rows + kRowsOfBlock - 1) / kRowsOfBlock, 1, kMostShares);
}

// Over the warps of a block, in their order; the first warp gets the sum.
__device__ float block_sum(float x) {
  __shared__ float parts[kLanes][kColumns];
  __syncthreads();
  parts[threadIdx.y][threadIdx.x] = x;
  __syncthreads();
  float sum = 0.0f;
#pragma unroll
  for (int lane = 0; lane < kLanes; ++lane) sum += parts[lane][threadIdx.x];
  return sum;
}

// partial[share][column]
template <class T>
__global__ void __launch_bounds__(kColumns* kLanes)
    shares_kernel(const __grid_constant__ ColumnSums p, float* partial) {
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kColumns + threadIdx.x;
  const std::int64_t share = (p.rows + gridDim.y - 1) / gridDim.y;
  const std::int64_t first = share * blockIdx.y;
  const std::int64_t end = min(first + share, p.rows);
  float sum = 0.0f;
  if (column < p.columns) {
#pragma unroll 8
    for (std::int64_t row = first + threadIdx.y; row < end; row += kLanes) {
      sum += to_float(static_cast<const T*>(p.y)[row * p.columns + column]);
    }
  }
  sum = block_sum(sum);
  if (threadIdx.y == 0 && column < p.columns) partial[blockIdx.y * p.columns + column] = sum;
}

__global__ void __launch_bounds__(kColumns* kLanes)
    totals_kernel(const float* partial, int shares, std::int64_t columns, float* sums) {
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kColumns + threadIdx.x;
  float sum = 0.0f;
  if (column < columns) {
#pragma unroll 8
    for (int share = static_cast<int>(threadIdx.y); share < shares; share += kLanes) {
      sum += partial[share * columns + column];
    }
  }
  sum = block_sum(sum);
  if (threadIdx.y == 0 && column < columns) sums[column] = sum;
}

unsigned blocks_of(std::int64_t columns) {
  return static_cast<unsigned>((columns + kColumns - 1) / kColumns);
}

}  // namespace

std::size_t column_sums_bytes(const ColumnSums& p) {
  return static_cast<std::size_t>(shares_of(p) * p.columns) * sizeof(float);
}

Status sum_shares(const float* partial, std::int64_t shares, std::int64_t columns, float* sums,
                  Stream stream) noexcept {
  totals_kernel<<<blocks_of(columns), dim3(kColumns, kLanes), 0,
                  static_cast<cudaStream_t>(stream)>>>(partial, static_cast<int>(shares), columns,
                                                       sums);
  return launch_status("column_sums");
}

Status column_sums(const ColumnSums& p, Stream stream) noexcept {
  if (p.columns == 0) return {};
  const std::int64_t shares = shares_of(p);
  auto* partial = static_cast<float*>(p.workspace);
  with_type(p.type, [&]<class T>(T) {
    const dim3 grid(blocks_of(p.columns), static_cast<unsigned>(shares));
    shares_kernel<T>
        <<<grid, dim3(kColumns, kLanes), 0, static_cast<cudaStream_t>(stream)>>>(p, partial);
  });
  return sum_shares(partial, shares, p.columns, p.sums, stream);
}

}  // namespace posenc::cuda
