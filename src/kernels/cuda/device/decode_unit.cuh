// The launches of decoding for one storage type; compiled in a file per type, so that they build side by
// side.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/device/decode.cuh"
#include "kernels/cuda/launch.h"

namespace posenc::cuda {

template <class T>
Status launch_decode(const DecodeParams& p, Stream stream);

namespace decode_unit {

inline constexpr const char* kOp = "attention_decode";

// Raw scores to global memory, and each row's sum of gates in the split.
template <int kRows>
__device__ void keep_scores(const DecodeParams& p, int first_row, int first_key, int count,
                            const float* scores) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int r = warp; r < kRows; r += kDecodeWarps) {
    const DecodeRow row = decode_row(p, first_row + r);
    if (!row.valid) continue;
    const DecodeSight sight(p, row);
    const std::int64_t at = row_index(p, row);
    float sum = 0.0f;
    for (int j = lane; j < count; j += 32) {
      const float score = scores[j * kRows + r];
      p.scores[at * p.a.keys + first_key + j] = score;
      sum += gate(p, sight, score, first_key + j);
    }
    sum = warp_sum(sum);
    if (lane == 0) p.gate_sums[at * p.splits + blockIdx.x] = sum;
  }
}

// Scores as they were kept, with the position logits that the gates behind the split allow.
template <class T, int kRows>
__device__ void add_cope(const DecodeParams& p, int first_row, int first_key, int count,
                         float* scores, float* tables) {
  fill_position_tables<T, kRows>(p, first_row, tables);
  __syncthreads();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int r = warp; r < kRows; r += kDecodeWarps) {
    const DecodeRow row = decode_row(p, first_row + r);
    if (!row.valid) continue;
    const std::int64_t at = row_index(p, row);
    for (int j = lane; j < count; j += 32) {
      scores[j * kRows + r] = p.scores[at * p.a.keys + first_key + j];
    }
    float behind = 0.0f;
    for (int s = static_cast<int>(blockIdx.x) + 1 + lane; s < p.splits; s += 32) {
      behind += p.gate_sums[at * p.splits + s];
    }
    __syncwarp();
    add_positions<kRows>(p, DecodeSight(p, row), first_key, count, warp_sum(behind),
                         tables + r * p.a.cope.npos_max, scores + r);
  }
}

template <class T, int kRows, int kLanes, DecodePhase kPhase>
__global__ void __launch_bounds__(kDecodeThreads, kDecodeBlocks<kRows>)
    decode_kernel(const __grid_constant__ DecodeParams p) {
  extern __shared__ float4 memory[];
  float* scores = reinterpret_cast<float*>(memory);  // [kSplitKeys][kRows]
  float* sums = scores + kRows * kSplitKeys;         // [kRows][channels]
  float* tables = sums + kRows * p.a.head_dim;       // [kRows][npos_max]
  const int first_row = static_cast<int>(blockIdx.z) * kRows;
  const int first_key = static_cast<int>(blockIdx.x) * p.split_keys;
  const int count = min(p.split_keys, p.a.keys - first_key);
  if constexpr (kPhase != DecodePhase::kWeights) {
    split_scores<T, kRows, kLanes>(p, first_row, first_key, count, scores);
    __syncthreads();
  }
  if constexpr (kPhase == DecodePhase::kScores) {
    keep_scores<kRows>(p, first_row, first_key, count, scores);
  } else {
    if constexpr (kPhase == DecodePhase::kWeights) {
      add_cope<T, kRows>(p, first_row, first_key, count, scores, tables);
      __syncthreads();
    }
    for (int r = static_cast<int>(threadIdx.x) / 32; r < kRows; r += kDecodeWarps) {
      const DecodeRow row = decode_row(p, first_row + r);
      float* mine = scores + r;
      if (!row.valid) {
        for (int j = static_cast<int>(threadIdx.x) % 32; j < count; j += 32) mine[j * kRows] = 0.0f;
        continue;
      }
      const float2 part = softmax_row<kRows>(DecodeSight(p, row), first_key, count, mine);
      if (threadIdx.x % 32 == 0) p.softmax[row_index(p, row) * p.splits + blockIdx.x] = part;
    }
    __syncthreads();
    weigh_values<T, kRows, kLanes>(p, first_row, first_key, count, scores, sums);
  }
}

// Joins the parts of a row: one block per row, a thread per channel.
template <class T>
__global__ void join_kernel(const __grid_constant__ DecodeParams p) {
  const std::int64_t index = blockIdx.x;
  float largest = -CUDART_INF_F;
  for (int s = 0; s < p.splits; ++s) largest = fmaxf(largest, p.softmax[index * p.splits + s].x);
  const std::int64_t batch = index / p.a.queries / p.a.heads;
  const std::int64_t head = index / p.a.queries % p.a.heads;
  T* out = static_cast<T*>(p.a.out.data) + batch * p.a.out.batch_stride +
           head * p.a.out.head_stride + index % p.a.queries * p.a.out.token_stride;
  const int channel = static_cast<int>(threadIdx.x);
  float sum = 0.0f;
  float total = 0.0f;
  for (int s = 0; s < p.splits && largest > -CUDART_INF_F; ++s) {
    const std::int64_t part = index * p.splits + s;
    const float scale = __expf(p.softmax[part].x - largest);
    total += scale * p.softmax[part].y;
    if (channel < p.a.head_dim) sum += scale * p.parts[part * p.a.head_dim + channel];
  }
  if (channel < p.a.head_dim) out[channel] = from_float<T>(total > 0.0f ? sum / total : 0.0f);
  if (channel == 0 && p.a.lse != nullptr) {
    p.a.lse[index] = total > 0.0f ? largest + logf(total) : -CUDART_INF_F;
  }
}

template <class T, int kRows, int kLanes, DecodePhase kPhase>
Status launch_phase(const DecodeParams& p, Stream stream) {
  const int rows = p.a.heads / p.a.kv_heads * p.a.queries;
  const dim3 grid(static_cast<unsigned>(p.splits), static_cast<unsigned>(p.a.batch * p.a.kv_heads),
                  static_cast<unsigned>((rows + kRows - 1) / kRows));
  const int floats = kRows * (kSplitKeys + p.a.head_dim + p.a.cope.npos_max);
  const std::size_t bytes = static_cast<std::size_t>(floats) * sizeof(float);
  const auto kernel = decode_kernel<T, kRows, kLanes, kPhase>;
  if (bytes > 48 * 1024) {
    const cudaError_t error = cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
    if (error != cudaSuccess) return launch_status(kOp);
  }
  kernel<<<grid, kDecodeThreads, bytes, static_cast<cudaStream_t>(stream)>>>(p);
  return launch_status(kOp);
}

template <class T, int kRows, int kLanes>
Status launch_lanes(const DecodeParams& p, Stream stream) {
  if (p.a.cope.npos_max == 0) return launch_phase<T, kRows, kLanes, DecodePhase::kAll>(p, stream);
  if (Status s = launch_phase<T, kRows, kLanes, DecodePhase::kScores>(p, stream); !s.ok()) return s;
  return launch_phase<T, kRows, kLanes, DecodePhase::kWeights>(p, stream);
}

template <class T, int kRows>
Status launch_rows(const DecodeParams& p, Stream stream) {
  if (p.a.head_dim <= 64) return launch_lanes<T, kRows, 8>(p, stream);
  if (p.a.head_dim <= 128) return launch_lanes<T, kRows, 16>(p, stream);
  return launch_lanes<T, kRows, 32>(p, stream);
}

template <class T>
Status launch(const DecodeParams& p, Stream stream) {
  const int rows = p.a.heads / p.a.kv_heads * p.a.queries;
  const Status status = rows == 1   ? launch_rows<T, 1>(p, stream)
                        : rows <= 4 ? launch_rows<T, 4>(p, stream)
                                    : launch_rows<T, 8>(p, stream);
  if (!status.ok()) return status;
  const auto all = static_cast<unsigned>(p.a.batch * p.a.heads * p.a.queries);
  const auto threads = static_cast<unsigned>((p.a.head_dim + 31) / 32 * 32);
  join_kernel<T><<<all, threads, 0, static_cast<cudaStream_t>(stream)>>>(p);
  return launch_status(kOp);
}

}  // namespace decode_unit
}  // namespace posenc::cuda
