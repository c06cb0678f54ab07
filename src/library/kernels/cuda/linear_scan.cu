#include <cuda_runtime.h>

#include <algorithm>

#include "kernels/cuda/linear_scan.h"

namespace posenc::cuda {
namespace {

constexpr const char* kOp = "linear_scan";
constexpr int kValues = 64;  // columns of a block
constexpr int kPitch = kValues + 4;
constexpr int kThreads = 256;  // 16 x 16, each with 4 columns
constexpr int kWideChunk = 64;
constexpr int kNarrowChunk = 32;  // where the features leave no room for more

struct ScanParams {
  const float* a;
  const float* b;
  const float* c;
  float* out;
  float* sums;  // [count][stretches][features][values]
  std::int64_t tokens;
  std::int64_t stretch;  // tokens
  int stretches;
  int features;
  int values;
  ScanSees sees;
};

// The shared memory of a block; features are stored transposed, [feature][token].
template <int kChunk>
struct ScanTiles {
  static constexpr int kTokenPitch = kChunk + 4;

  __device__ ScanTiles(float* memory, int features)
      : a(memory),
        b(a + features * kTokenPitch),
        c(b + features * kTokenPitch),
        p(c + kChunk * kPitch),
        s(p + kChunk * kTokenPitch) {}
  static std::size_t bytes(int features) {
    const int floats =
        2 * features * kTokenPitch + kChunk * kPitch + kChunk * kTokenPitch + features * kPitch;
    return static_cast<std::size_t>(floats) * sizeof(float);
  }

  float* a;  // [features][kTokenPitch]
  float* b;
  float* c;  // [kChunk][kPitch]
  float* p;  // [key][query]
  float* s;  // [features][kPitch]
};

template <int kChunk>
__device__ void load_turned(const float* rows, std::int64_t count, int features, float* to) {
  for (int i = static_cast<int>(threadIdx.x); i < kChunk * features; i += kThreads) {
    const int token = i / features;
    const int feature = i % features;
    to[feature * (kChunk + 4) + token] =
        token < count ? rows[static_cast<std::int64_t>(token) * features + feature] : 0.0f;
  }
}

template <int kChunk>
__device__ void load_values(const ScanParams& p, const float* rows, std::int64_t count, int first,
                            float* to) {
  for (int i = static_cast<int>(threadIdx.x); i < kChunk * kValues; i += kThreads) {
    const int token = i / kValues;
    const int value = first + i % kValues;
    to[token * kPitch + i % kValues] =
        token < count && value < p.values
            ? rows[static_cast<std::int64_t>(token) * p.values + value]
            : 0.0f;
  }
}

// s += b c^T over a chunk.
template <int kChunk>
__device__ void add_chunk(const ScanTiles<kChunk>& t, int features) {
  const int column = static_cast<int>(threadIdx.x % 16) * 4;
  for (int f = static_cast<int>(threadIdx.x / 16) * 4; f < features; f += 64) {
    float sum[4][4] = {};
    for (int j = 0; j < kChunk; ++j) {
      const float4 c = *reinterpret_cast<const float4*>(t.c + j * kPitch + column);
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const float b = t.b[min(f + r, features - 1) * ScanTiles<kChunk>::kTokenPitch + j];
        sum[r][0] += b * c.x;
        sum[r][1] += b * c.y;
        sum[r][2] += b * c.z;
        sum[r][3] += b * c.w;
      }
    }
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      if (f + r >= features) break;
      float* to = t.s + (f + r) * kPitch + column;
      for (int e = 0; e < 4; ++e) to[e] += sum[r][e];
    }
  }
}

// acc += x^T y over `depth` rows of x [depth][x_pitch] and y [depth][y_pitch], at this thread's rows and
// columns.
template <int kRows>
__device__ __forceinline__ void multiply(const float* x, int x_pitch, const float* y, int y_pitch,
                                         int depth, float (&acc)[kRows][4]) {
  const float* x_at = x + static_cast<int>(threadIdx.x / 16) * kRows;
  const float* y_at = y + static_cast<int>(threadIdx.x % 16) * 4;
#pragma unroll 4
  for (int d = 0; d < depth; ++d) {
    const float4 row = *reinterpret_cast<const float4*>(y_at + d * y_pitch);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float left = x_at[d * x_pitch + r];
      acc[r][0] += left * row.x;
      acc[r][1] += left * row.y;
      acc[r][2] += left * row.z;
      acc[r][3] += left * row.w;
    }
  }
}

// acc += p c over the keys that this thread's queries see. Others are not multiplied: 0 does not cancel what
// is not finite.
template <int kChunk>
__device__ void add_seen(const ScanTiles<kChunk>& t, bool later, float (&acc)[kChunk / 16][4]) {
  constexpr int kRows = kChunk / 16;
  constexpr int kTokenPitch = ScanTiles<kChunk>::kTokenPitch;
  const int first = static_cast<int>(threadIdx.x / 16) * kRows;
  const int begin = later ? first + kRows : 0;
  multiply<kRows>(t.p + begin * kTokenPitch, kTokenPitch, t.c + begin * kPitch, kPitch,
                  later ? kChunk - begin : first, acc);
#pragma unroll
  for (int d = 0; d < kRows; ++d) {
    const float* row = t.c + (first + d) * kPitch + static_cast<int>(threadIdx.x % 16) * 4;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (later ? d < r : d > r) continue;
      const float left = t.p[(first + d) * kTokenPitch + first + r];
#pragma unroll
      for (int e = 0; e < 4; ++e) acc[r][e] += left * row[e];
    }
  }
}

// p[key][query] = <a, b> where the query sees the key.
template <int kChunk>
__device__ void score_chunk(const ScanTiles<kChunk>& t, int features, bool later) {
  constexpr int kRows = kChunk / 16;
  constexpr int kTokenPitch = ScanTiles<kChunk>::kTokenPitch;
  const int first_key = static_cast<int>(threadIdx.x / 16) * kRows;
  const int first_query = static_cast<int>(threadIdx.x % 16) * kRows;
  float sum[kRows][kRows] = {};
#pragma unroll 4
  for (int f = 0; f < features; ++f) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int q = 0; q < kRows; ++q) {
        sum[r][q] += t.b[f * kTokenPitch + first_key + r] * t.a[f * kTokenPitch + first_query + q];
      }
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int q = 0; q < kRows; ++q) {
      const int key = first_key + r;
      const int query = first_query + q;
      const bool seen = later ? key >= query : key <= query;
      t.p[key * kTokenPitch + query] = seen ? sum[r][q] : 0.0f;
    }
  }
}

__device__ float* sums_of(const ScanParams& p, int stretch) {
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.y) * p.stretches + stretch;
  return p.sums + at * p.features * p.values;
}

template <int kChunk>
__device__ void store_state(const ScanParams& p, const ScanTiles<kChunk>& t, float* to) {
  const int first = static_cast<int>(blockIdx.z) * kValues;
  for (int i = static_cast<int>(threadIdx.x); i < p.features * kValues; i += kThreads) {
    const int value = first + i % kValues;
    if (value < p.values)
      to[i / kValues * p.values + value] = t.s[i / kValues * kPitch + i % kValues];
  }
}

template <int kChunk>
__device__ void load_state(const ScanParams& p, const ScanTiles<kChunk>& t, const float* from) {
  const int first = static_cast<int>(blockIdx.z) * kValues;
  for (int i = static_cast<int>(threadIdx.x); i < p.features * kValues; i += kThreads) {
    const int value = first + i % kValues;
    t.s[i / kValues * kPitch + i % kValues] =
        from != nullptr && value < p.values ? from[i / kValues * p.values + value] : 0.0f;
  }
}

// The sum of one stretch.
template <int kChunk>
__global__ void __launch_bounds__(kThreads) sum_kernel(const ScanParams p) {
  extern __shared__ float4 memory[];
  const ScanTiles<kChunk> t(reinterpret_cast<float*>(memory), p.features);
  load_state(p, t, nullptr);
  const std::int64_t first = blockIdx.x * p.stretch;
  const std::int64_t end = min(first + p.stretch, p.tokens);
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.y) * p.tokens;
  for (std::int64_t at = first; at < end; at += kChunk) {
    __syncthreads();
    const std::int64_t count = min(static_cast<std::int64_t>(kChunk), end - at);
    load_turned<kChunk>(p.b + (row + at) * p.features, count, p.features, t.b);
    load_values<kChunk>(p, p.c + (row + at) * p.values, count,
                        static_cast<int>(blockIdx.z) * kValues, t.c);
    __syncthreads();
    add_chunk(t, p.features);
  }
  __syncthreads();
  store_state(p, t, sums_of(p, static_cast<int>(blockIdx.x)));
}

// From the sums of stretches to what stands before each of them (after, or in all).
__global__ void carry_kernel(const ScanParams p) {
  const int entries = p.features * p.values;
  const int entry = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (entry >= entries) return;
  float* at = p.sums + static_cast<std::int64_t>(blockIdx.y) * p.stretches * entries + entry;
  double sum = 0.0;
  for (int i = 0; i < p.stretches; ++i) {
    const int stretch = p.sees == ScanSees::kLater ? p.stretches - 1 - i : i;
    float* here = at + static_cast<std::int64_t>(stretch) * entries;
    const float own = *here;
    *here = static_cast<float>(sum);
    sum += static_cast<double>(own);
  }
  if (p.sees != ScanSees::kAll) return;
  for (int i = 0; i < p.stretches; ++i) {
    at[static_cast<std::int64_t>(i) * entries] = static_cast<float>(sum);
  }
}

template <int kChunk>
__device__ void write_chunk(const ScanParams& p, const ScanTiles<kChunk>& t, std::int64_t row,
                            std::int64_t count) {
  constexpr int kRows = kChunk / 16;
  constexpr int kTokenPitch = ScanTiles<kChunk>::kTokenPitch;
  float acc[kRows][4] = {};
  multiply<kRows>(t.a, kTokenPitch, t.s, kPitch, p.features, acc);
  if (p.sees != ScanSees::kAll) add_seen(t, p.sees == ScanSees::kLater, acc);
  const int column =
      static_cast<int>(blockIdx.z) * kValues + static_cast<int>(threadIdx.x % 16) * 4;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int token = static_cast<int>(threadIdx.x / 16) * kRows + r;
    if (token >= count) break;
    float* to = p.out + (row + token) * p.values;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (column + e < p.values) to[column + e] = acc[r][e];
    }
  }
}

template <int kChunk>
__global__ void __launch_bounds__(kThreads) walk_kernel(const ScanParams p) {
  extern __shared__ float4 memory[];
  const ScanTiles<kChunk> t(reinterpret_cast<float*>(memory), p.features);
  load_state(p, t, sums_of(p, static_cast<int>(blockIdx.x)));
  const std::int64_t first = blockIdx.x * p.stretch;
  const std::int64_t end = min(first + p.stretch, p.tokens);
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.y) * p.tokens;
  const std::int64_t chunks = (end - first + kChunk - 1) / kChunk;
  const bool later = p.sees == ScanSees::kLater;
  for (std::int64_t i = 0; i < chunks; ++i) {
    const std::int64_t at = first + (later ? chunks - 1 - i : i) * kChunk;
    const std::int64_t count = min(static_cast<std::int64_t>(kChunk), end - at);
    __syncthreads();
    load_turned<kChunk>(p.a + (row + at) * p.features, count, p.features, t.a);
    if (p.sees != ScanSees::kAll) {
      load_turned<kChunk>(p.b + (row + at) * p.features, count, p.features, t.b);
      load_values<kChunk>(p, p.c + (row + at) * p.values, count,
                          static_cast<int>(blockIdx.z) * kValues, t.c);
      __syncthreads();
      score_chunk(t, p.features, later);
    }
    __syncthreads();
    write_chunk(p, t, row + at, count);
    if (p.sees == ScanSees::kAll) continue;
    __syncthreads();
    add_chunk(t, p.features);
  }
}

// Stretches that fill the device a few times over, of whole chunks.
std::int64_t stretch_of(const LinearScan& scan) {
  const std::int64_t tiles = (scan.values + kValues - 1) / kValues;
  const std::int64_t wanted = 8 * multiprocessors();
  const std::int64_t per_row =
      std::max<std::int64_t>(wanted / std::max<std::int64_t>(scan.count * tiles, 1), 1);
  const std::int64_t tokens = (scan.tokens + per_row - 1) / per_row;
  return std::max<std::int64_t>((tokens + kWideChunk - 1) / kWideChunk * kWideChunk, kWideChunk);
}

std::int64_t stretches_of(const LinearScan& scan) {
  const std::int64_t stretch = stretch_of(scan);
  return (scan.tokens + stretch - 1) / stretch;
}

template <int kChunk>
Status launch(const LinearScan& scan, const ScanParams& p, Stream stream) {
  const std::size_t bytes = ScanTiles<kChunk>::bytes(scan.features);
  const auto on = static_cast<cudaStream_t>(stream);
  for (const void* kernel : {reinterpret_cast<const void*>(sum_kernel<kChunk>),
                             reinterpret_cast<const void*>(walk_kernel<kChunk>)}) {
    const cudaError_t error = cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
    if (error != cudaSuccess) {
      (void)cudaGetLastError();
      return Status::format(StatusCode::kUnsupported, "[%s] %d features need %zu bytes a block: %s",
                            kOp, scan.features, bytes, cudaGetErrorString(error));
    }
  }
  const dim3 grid(static_cast<unsigned>(p.stretches), static_cast<unsigned>(scan.count),
                  static_cast<unsigned>((scan.values + kValues - 1) / kValues));
  sum_kernel<kChunk><<<grid, kThreads, bytes, on>>>(p);
  const auto entries = static_cast<unsigned>(scan.features * scan.values);
  carry_kernel<<<dim3((entries + kThreads - 1) / kThreads, grid.y), kThreads, 0, on>>>(p);
  walk_kernel<kChunk><<<grid, kThreads, bytes, on>>>(p);
  return launch_status(kOp);
}

}  // namespace

std::size_t linear_scan_bytes(const LinearScan& scan) {
  return static_cast<std::size_t>(scan.count * stretches_of(scan)) *
         static_cast<std::size_t>(scan.features) * static_cast<std::size_t>(scan.values) *
         sizeof(float);
}

Status linear_scan(const LinearScan& scan, Stream stream) noexcept {
  if (scan.count == 0 || scan.tokens == 0 || scan.values == 0) return {};
  if (scan.a == nullptr || scan.b == nullptr || scan.c == nullptr || scan.out == nullptr ||
      scan.workspace == nullptr) {
    return {StatusCode::kInvalidArgument, "[linear_scan] rows and workspace must not be null"};
  }
  if (scan.features < 1 || scan.features > kMostScanFeatures || scan.count > 65535) {
    return Status::format(StatusCode::kUnsupported,
                          "[%s] there must be 1 to %d features and at most 65535 heads but got %d "
                          "and %lld",
                          kOp, kMostScanFeatures, scan.features,
                          static_cast<long long>(scan.count));
  }
  const ScanParams p{scan.a,
                     scan.b,
                     scan.c,
                     scan.out,
                     static_cast<float*>(scan.workspace),
                     scan.tokens,
                     stretch_of(scan),
                     static_cast<int>(stretches_of(scan)),
                     scan.features,
                     scan.values,
                     scan.sees};
  return scan.features <= 132 ? launch<kWideChunk>(scan, p, stream)
                              : launch<kNarrowChunk>(scan, p, stream);
}

}  // namespace posenc::cuda
