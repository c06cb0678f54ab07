#include <cuda_runtime.h>

#include <algorithm>

#include "kernels/cuda/decode.h"
#include "kernels/cuda/device/decode.cuh"
#include "kernels/cuda/launch.h"

namespace posenc::cuda {
namespace {

constexpr const char* kOp = "attention_decode";

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
      const float score = scores[r * kSplitKeys + j];
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
      scores[r * kSplitKeys + j] = p.scores[at * p.a.keys + first_key + j];
    }
    float behind = 0.0f;
    for (int s = static_cast<int>(blockIdx.x) + 1 + lane; s < p.splits; s += 32) {
      behind += p.gate_sums[at * p.splits + s];
    }
    __syncwarp();
    add_positions(p, DecodeSight(p, row), first_key, count, warp_sum(behind),
                  tables + r * p.a.cope.npos_max, scores + r * kSplitKeys);
  }
}

template <class T, int kRows, DecodePhase kPhase>
__global__ void __launch_bounds__(kDecodeThreads)
    decode_kernel(const __grid_constant__ DecodeParams p) {
  extern __shared__ float4 memory[];
  float* scores = reinterpret_cast<float*>(memory);  // [kRows][kSplitKeys]
  float* sums = scores + kRows * kSplitKeys;         // [kRows][channels]
  float* tables = sums + kRows * p.a.head_dim;       // [kRows][npos_max]
  const int first_row = static_cast<int>(blockIdx.z) * kRows;
  const int first_key = static_cast<int>(blockIdx.x) * p.split_keys;
  const int count = min(p.split_keys, p.a.keys - first_key);
  if constexpr (kPhase != DecodePhase::kWeights) {
    split_scores<T, kRows>(p, first_row, first_key, count, scores);
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
      float* mine = scores + r * kSplitKeys;
      if (!row.valid) {
        for (int j = static_cast<int>(threadIdx.x) % 32; j < count; j += 32) mine[j] = 0.0f;
        continue;
      }
      const float2 part = softmax_row(DecodeSight(p, row), first_key, count, mine);
      if (threadIdx.x % 32 == 0) p.softmax[row_index(p, row) * p.splits + blockIdx.x] = part;
    }
    __syncthreads();
    weigh_values<T, kRows>(p, first_row, first_key, count, scores, sums);
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

int round_up_to_power(int x) {
  int power = 1;
  while (power < x) power *= 2;
  return power;
}

DecodeParams decode_params(const AttentionParams& params) {
  DecodeParams p;
  p.a = params;
  const std::int64_t heads = static_cast<std::int64_t>(params.batch) * params.kv_heads;
  const std::int64_t wanted =
      std::max<std::int64_t>(6 * multiprocessors() / std::max<std::int64_t>(heads, 1), 1);
  const std::int64_t keys = (params.keys + wanted - 1) / wanted;
  p.split_keys = static_cast<int>(std::clamp<std::int64_t>((keys + 63) / 64 * 64, 64, kSplitKeys));
  p.splits = (params.keys + p.split_keys - 1) / p.split_keys;
  p.lanes = std::min(round_up_to_power((params.head_dim + kDecodeVector - 1) / kDecodeVector), 32);
  const std::int64_t rows = static_cast<std::int64_t>(params.batch) * params.heads * params.queries;
  auto* at = static_cast<float*>(params.workspace);
  p.softmax = reinterpret_cast<float2*>(at);
  at += 2 * rows * p.splits;
  p.parts = at;
  at += rows * p.splits * params.head_dim;
  if (params.cope.npos_max == 0) return p;
  p.gate_sums = at;
  p.scores = at + rows * p.splits;
  return p;
}

template <class T, int kRows, DecodePhase kPhase>
Status launch_phase(const DecodeParams& p, Stream stream) {
  const int rows = p.a.heads / p.a.kv_heads * p.a.queries;
  const dim3 grid(static_cast<unsigned>(p.splits), static_cast<unsigned>(p.a.batch * p.a.kv_heads),
                  static_cast<unsigned>((rows + kRows - 1) / kRows));
  const int floats = kRows * (kSplitKeys + p.a.head_dim + p.a.cope.npos_max);
  const std::size_t bytes = static_cast<std::size_t>(floats) * sizeof(float);
  const auto kernel = decode_kernel<T, kRows, kPhase>;
  if (bytes > 48 * 1024) {
    const cudaError_t error = cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
    if (error != cudaSuccess) return launch_status(kOp);
  }
  kernel<<<grid, kDecodeThreads, bytes, static_cast<cudaStream_t>(stream)>>>(p);
  return launch_status(kOp);
}

template <class T, int kRows>
Status launch_rows(const DecodeParams& p, Stream stream) {
  if (p.a.cope.npos_max == 0) return launch_phase<T, kRows, DecodePhase::kAll>(p, stream);
  if (Status s = launch_phase<T, kRows, DecodePhase::kScores>(p, stream); !s.ok()) return s;
  return launch_phase<T, kRows, DecodePhase::kWeights>(p, stream);
}

template <class T>
Status launch(const DecodeParams& p, Stream stream) {
  const int rows = p.a.heads / p.a.kv_heads * p.a.queries;
  const Status status = rows == 1   ? launch_rows<T, 1>(p, stream)
                        : rows == 2 ? launch_rows<T, 2>(p, stream)
                        : rows <= 4 ? launch_rows<T, 4>(p, stream)
                                    : launch_rows<T, 8>(p, stream);
  if (!status.ok()) return status;
  const auto all = static_cast<unsigned>(p.a.batch * p.a.heads * p.a.queries);
  const auto threads = static_cast<unsigned>((p.a.head_dim + 31) / 32 * 32);
  join_kernel<T><<<all, threads, 0, static_cast<cudaStream_t>(stream)>>>(p);
  return launch_status(kOp);
}

}  // namespace

bool is_decode(const AttentionParams& params) noexcept {
  return params.queries <= kMostDecodeQueries && params.segments == nullptr &&
         params.dropout_threshold == 0;
}

std::size_t decode_workspace_bytes(const AttentionParams& params) noexcept {
  const DecodeParams p = decode_params(params);
  const std::int64_t rows = static_cast<std::int64_t>(params.batch) * params.heads * params.queries;
  std::int64_t floats = rows * p.splits * (2 + params.head_dim);
  if (params.cope.npos_max > 0) floats += rows * (p.splits + params.keys);
  return static_cast<std::size_t>(floats) * sizeof(float);
}

Status launch_attention_decode(const AttentionParams& params, Stream stream) noexcept {
  if (!is_decode(params) || params.head_dim % kDecodeVector != 0 || params.head_dim > 256) {
    return {StatusCode::kUnsupported,
            "[attention_decode] is for few queries of unpacked sequences, without dropout, and for "
            "channels in multiples of 8 up to 256"};
  }
  if (params.batch == 0 || params.heads == 0 || params.queries == 0) return {};
  if (params.keys == 0) {
    return {StatusCode::kInvalidArgument, "[attention_decode] there must be keys"};
  }
  if (params.workspace == nullptr || params.workspace_bytes < decode_workspace_bytes(params)) {
    return {StatusCode::kInvalidArgument, "[attention_decode] workspace is too small"};
  }
  const DecodeParams p = decode_params(params);
  return params.element == Element::kFloat16 ? launch<__half>(p, stream)
                                             : launch<__nv_bfloat16>(p, stream);
}

}  // namespace posenc::cuda
