#include <algorithm>

#include "kernels/cuda/attention_sums.h"
#include "kernels/cuda/device/mma.cuh"

namespace posenc::cuda {
namespace {

__device__ float warp_sum(float x) {
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(~0u, x, step);
  return x;
}

// A warp per row.
template <class T>
__global__ void products_kernel(const __grid_constant__ AttentionBackwardParams b, float* delta) {
  const AttentionParams& p = b.forward;
  const std::int64_t row =
      static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
  if (row >= static_cast<std::int64_t>(p.batch) * p.heads * p.queries) return;
  const std::int64_t query = row % p.queries;
  const std::int64_t head = row / p.queries % p.heads;
  const std::int64_t batch = row / p.queries / p.heads;
  const auto start = [&](const Tensor4& x) {
    return static_cast<const T*>(x.data) + batch * x.batch_stride + head * x.head_stride +
           query * x.token_stride;
  };
  const T* out = start(p.out);
  const T* grad = start(b.grad_out);
  float sum = 0.0f;
  for (int c = static_cast<int>(threadIdx.x % 32) * 2; c < p.head_dim; c += 64) {
    sum = fmaf(static_cast<float>(out[c]), static_cast<float>(grad[c]), sum);
    sum = fmaf(static_cast<float>(out[c + 1]), static_cast<float>(grad[c + 1]), sum);
  }
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) delta[row] = sum;
}

// Block row y sums its share of the partial sums.
__global__ void partials_kernel(const float* partials, std::int64_t count, std::int64_t entries,
                                float* to) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= entries) return;
  const std::int64_t share = (count + gridDim.y - 1) / gridDim.y;
  const std::int64_t first = share * blockIdx.y;
  const std::int64_t end = min(first + share, count);
  float sum = 0.0f;
#pragma unroll 8
  for (std::int64_t n = first; n < end; ++n) sum += partials[n * entries + i];
  to[blockIdx.y * entries + i] = sum;
}

__global__ void heads_kernel(const float* partials, int sequences, int heads, std::int64_t per_head,
                             float* to) {
  float sum = 0.0f;
  for (int s = 0; s < sequences; ++s) {
    const float* from = partials + (static_cast<std::int64_t>(s) * heads + blockIdx.x) * per_head;
    for (std::int64_t i = threadIdx.x; i < per_head; i += 32) sum += from[i];
  }
  sum = warp_sum(sum);
  if (threadIdx.x == 0) to[blockIdx.x] = sum;
}

}  // namespace

cudaError_t sum_products(const AttentionBackwardParams& b, float* delta, cudaStream_t stream) {
  const AttentionParams& p = b.forward;
  const std::int64_t rows = std::int64_t{p.batch} * p.heads * p.queries;
  const auto blocks = static_cast<unsigned>((rows + 7) / 8);
  switch (p.element) {
    case Element::kBFloat16:
      products_kernel<Bf16><<<blocks, 256, 0, stream>>>(b, delta);
      break;
    case Element::kFloat16:
      products_kernel<Fp16><<<blocks, 256, 0, stream>>>(b, delta);
      break;
    case Element::kFloat32:
      products_kernel<float><<<blocks, 256, 0, stream>>>(b, delta);
      break;
  }
  return cudaGetLastError();
}

cudaError_t sum_partials(const float* partials, std::int64_t count, std::int64_t entries,
                         float* level, float* to, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>((entries + 255) / 256);
  if (level != nullptr && count > 4 * kSumSplits) {
    partials_kernel<<<dim3(blocks, kSumSplits), 256, 0, stream>>>(partials, count, entries, level);
    partials = level;
    count = kSumSplits;
  }
  partials_kernel<<<blocks, 256, 0, stream>>>(partials, count, entries, to);
  return cudaGetLastError();
}

cudaError_t sum_heads(const float* partials, int sequences, int heads, std::int64_t per_head,
                      float* to, cudaStream_t stream) {
  heads_kernel<<<static_cast<unsigned>(heads), 32, 0, stream>>>(partials, sequences, heads,
                                                                per_head, to);
  return cudaGetLastError();
}

}  // namespace posenc::cuda
