// The decode launches for one storage type; each type is compiled in its own file, so that they build in
// parallel.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>

#include "kernels/cuda/device/decode_warp.cuh"
#include "kernels/cuda/launch.h"
#include "posenc/encodings/sink.h"

namespace posenc::cuda {

template <class T>
Status launch_decode(const DecodeParams& p, Stream stream);

namespace decode_unit {

inline constexpr const char* kOp = "attention_decode";

template <class T, int kDim, DecodePhase kPhase>
inline constexpr int kRingBytes = decode_warps(kDim) * DecodeRing<T, kDim, kPhase>::kBytes;

// A second pass over a warp's keys, without masked values. A separate function, because the first pass needs the registers.
template <class T, int kDim, DecodePhase kPhase>
__device__ __noinline__ void walk_carefully(const DecodeParams& p, Range keys, int unit, int units,
                                            std::uint32_t ring, float* tables,
                                            DecodeSums<kDim>& sums) {
  const DecodeBlock block(p);
  const DecodeRows mine(p, block);
  __syncwarp();
  if constexpr (kPhase == DecodePhase::kAll) {
    walk_all<T, kDim, true>(p, block, mine, keys, ring, sums);
  } else {
    walk_weights<T, kDim, true>(p, block, mine, keys, unit, units, ring, tables, sums);
  }
  copies_wait<0>();
}

template <class T, int kDim, DecodePhase kPhase>
__global__ void __launch_bounds__(32 * decode_warps(kDim),
                                  decode_blocks(kDim, kPhase != DecodePhase::kAll))
    decode_kernel(const __grid_constant__ DecodeParams p) {
  extern __shared__ float4 memory[];
  constexpr int kWarps = decode_warps(kDim);
  const DecodeBlock block(p);
  const DecodeRows mine(p, block);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const Range keys = block.keys<kWarps>(p, warp);
  const std::uint32_t ring = smem_address(memory) + warp * DecodeRing<T, kDim, kPhase>::kBytes;
  const int unit = block.split * kWarps + warp;
  const int units = p.splits * kWarps;
  if constexpr (kPhase == DecodePhase::kScores) {
    walk_scores<T, kDim>(p, block, mine, keys, unit, units, ring);
  } else {
    static_assert(kRingBytes<T, kDim, kPhase> >= sizeof(JoinSpace<kDim>));
    float* tables = reinterpret_cast<float*>(memory) + kRingBytes<T, kDim, kPhase> / 4;
    DecodeSums<kDim> sums;
    if constexpr (kPhase == DecodePhase::kAll) {
      walk_all<T, kDim, false>(p, block, mine, keys, ring, sums);
    } else {
      walk_weights<T, kDim, false>(p, block, mine, keys, unit, units, ring, tables, sums);
    }
    copies_wait<0>();
    if (sums.is_suspect(mine)) {
      DecodeSums<kDim> again;
      walk_carefully<T, kDim, kPhase>(p, keys, unit, units, ring, tables, again);
      sums = again;
    }
    __syncthreads();
    auto& space = *reinterpret_cast<JoinSpace<kDim>*>(memory);
    store_sums(mine, warp, sums, space);
    __syncthreads();
    join_warps(p, block, space);
  }
}

inline constexpr int kJoinThreads = 256;

// The weights of a row's parts, and their sum; each thread has some of them.
__device__ inline float part_weights(const DecodeParams& p, std::int64_t row, float largest,
                                     float* weights) {
  const float2* parts = p.softmax + row * p.splits;
  float total = 0.0f;
  for (int s = static_cast<int>(threadIdx.x); s < p.splits; s += kJoinThreads) {
    const float2 part = parts[s];
    const float weight = part.x == -INFINITY ? 0.0f : exp2_fast((part.x - largest) * kLog2e);
    weights[s] = weight;
    total += weight * part.y;
  }
  return total;
}
__device__ inline float largest_part(const DecodeParams& p, std::int64_t row) {
  const float2* parts = p.softmax + row * p.splits;
  float largest = -INFINITY;
  for (int s = static_cast<int>(threadIdx.x) % 32; s < p.splits; s += 32) {
    largest = fmaxf(largest, parts[s].x);
  }
  for (int step = 16; step > 0; step /= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, step));
  }
  return largest;
}
// Of a block's threads, in a fixed order, to all of them.
__device__ inline float block_sum(float x) {
  __shared__ float of_warp[kJoinThreads / 32];
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(~0u, x, step);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = x;
  __syncthreads();
  float sum = 0.0f;
  for (int w = 0; w < kJoinThreads / 32; ++w) sum += of_warp[w];
  return sum;
}

// By all threads of the block. A length that its pages cannot have hides keys that should be seen.
__device__ inline bool misses_a_key(const DecodeParams& p, std::int64_t row) {
  const int batch = static_cast<int>(row / p.a.queries / p.a.heads);
  if (!has_valid_length(p.a, batch)) return true;
  const Sequence s = decoded_sequence(p.a, batch);
  const std::uint8_t* mask = key_mask_of(p.a, s);
  const int query = static_cast<int>(row % p.a.queries);
  bool any = false;
  for (int key = s.lowest(query) + static_cast<int>(threadIdx.x); key <= s.highest(query);
       key += kJoinThreads) {
    any |= mask == nullptr || mask[key] != 0;
  }
  return __syncthreads_or(any) != 0;
}

// Joins the parts of a row, a block each: threads have four channels of every so many-th part.
template <class T>
__global__ void __launch_bounds__(kJoinThreads)
    join_kernel(const __grid_constant__ DecodeParams p) {
  extern __shared__ float4 memory[];  // sums of the threads, then weights of the parts
  float* weights = reinterpret_cast<float*>(memory + kJoinThreads);
  const std::int64_t row = blockIdx.x;
  const float largest = largest_part(p, row);
  const float total = block_sum(part_weights(p, row, largest, weights));
  const int fours = p.a.head_dim / 4;
  const int thread = static_cast<int>(threadIdx.x);
  const int together = kJoinThreads / fours;
  const auto* parts = reinterpret_cast<const float4*>(p.parts) + row * p.splits * fours;
  float4 sum = {};
#pragma unroll 4
  for (int s = thread / fours; thread < together * fours && s < p.splits; s += together) {
    const float4 part = parts[s * fours + thread % fours];
    sum.x += weights[s] * part.x;
    sum.y += weights[s] * part.y;
    sum.z += weights[s] * part.z;
    sum.w += weights[s] * part.w;
  }
  memory[thread] = sum;
  __syncthreads();
  // No weight at all: no key, or scores that overflowed.
  const float nothing = total == 0.0f && misses_a_key(p, row) ? NAN : 0.0f;
  const std::int64_t head = row / p.a.queries;
  float lse = total == 0.0f ? nothing - INFINITY : largest + logf(total);
  float scale = total == 0.0f ? nothing : 1.0f / total;
  if (p.a.sinks != nullptr && total != 0.0f) {
    const SinkRow<float> rest = add_sink(lse, p.a.sinks[head % p.a.heads]);
    scale *= rest.share;
    lse = rest.lse;
  }
  if (thread == 0 && p.a.lse != nullptr) p.a.lse[row] = lse;
  if (thread >= fours) return;
  for (int g = 1; g < together; ++g) {
    const float4 part = memory[g * fours + thread];
    sum = {sum.x + part.x, sum.y + part.y, sum.z + part.z, sum.w + part.w};
  }
  T* out = static_cast<T*>(p.a.out.data) + head / p.a.heads * p.a.out.batch_stride +
           head % p.a.heads * p.a.out.head_stride + row % p.a.queries * p.a.out.token_stride +
           4 * thread;
  store_pair(out, sum.x * scale, sum.y * scale);
  store_pair(out + 2, sum.z * scale, sum.w * scale);
}

template <class T, int kDim, DecodePhase kPhase>
Status launch_phase(const DecodeParams& p, Stream stream) {
  const int blocks = p.row_groups * p.splits * p.a.kv_heads * p.a.batch;
  std::size_t bytes = kRingBytes<T, kDim, kPhase>;
  if (kPhase == DecodePhase::kWeights) {
    const int rows = std::min(p.a.heads / p.a.kv_heads * p.a.queries, kStepRows);
    bytes += static_cast<std::size_t>(rows * logit_stride(p.a.cope.npos_max)) * sizeof(float);
  }
  const auto kernel = decode_kernel<T, kDim, kPhase>;
  const cudaError_t error = cudaFuncSetAttribute(
      kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  if (error != cudaSuccess) return launch_status(kOp);
  kernel<<<static_cast<unsigned>(blocks), 32 * decode_warps(kDim), bytes,
           static_cast<cudaStream_t>(stream)>>>(p);
  return launch_status(kOp);
}

template <class T, int kDim>
Status launch_phases(const DecodeParams& p, Stream stream) {
  if (p.a.cope.npos_max == 0) return launch_phase<T, kDim, DecodePhase::kAll>(p, stream);
  if (Status s = launch_phase<T, kDim, DecodePhase::kScores>(p, stream); !s.ok()) return s;
  return launch_phase<T, kDim, DecodePhase::kWeights>(p, stream);
}

template <class T>
Status launch(const DecodeParams& p, Stream stream) {
  const Status status = p.a.head_dim <= 64    ? launch_phases<T, 64>(p, stream)
                        : p.a.head_dim <= 128 ? launch_phases<T, 128>(p, stream)
                                              : launch_phases<T, 256>(p, stream);
  if (!status.ok()) return status;
  const auto rows = static_cast<unsigned>(p.a.batch * p.a.heads * p.a.queries);
  const std::size_t bytes =
      kJoinThreads * sizeof(float4) + static_cast<std::size_t>(p.splits) * sizeof(float);
  join_kernel<T><<<rows, kJoinThreads, bytes, static_cast<cudaStream_t>(stream)>>>(p);
  return launch_status(kOp);
}

}  // namespace decode_unit
}  // namespace posenc::cuda
