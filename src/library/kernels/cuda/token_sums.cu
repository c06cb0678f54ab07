#include <cuda_runtime.h>

#include <cub/block/block_scan.cuh>

#include "kernels/cuda/token_sums.h"

namespace posenc::cuda {
namespace {

constexpr int kThreads = 512;
using Scan = cub::BlockScan<double, kThreads>;

__device__ SegmentEntry segment_of(const TokenScan& scan, int index) {
  if (scan.segments != nullptr) return scan.segments[index];
  return {index, 0, scan.queries, 0, scan.keys};
}
__device__ bool is_hidden(const TokenScan& scan, const SegmentEntry& s, int key) {
  return scan.key_mask != nullptr &&
         scan.key_mask[static_cast<std::int64_t>(s.batch) * scan.keys + s.first_key + key] == 0;
}

// One sequence of one head of the queries.
struct SumRow {
  const float* x;
  double* at_query;
  double* at_key;

  __device__ SumRow(const TokenScan& scan, const SegmentEntry& s, int head, double* queries,
                    double* keys) {
    const std::int64_t row = static_cast<std::int64_t>(s.batch) * scan.heads + head;
    const int group = scan.heads / scan.input_heads;
    const std::int64_t input = static_cast<std::int64_t>(s.batch) * scan.input_heads + head / group;
    x = scan.x + input * scan.keys + s.first_key;
    at_query = queries + row * scan.queries + s.first_query;
    at_key = keys + row * scan.keys + s.first_key;
  }
};

__global__ void __launch_bounds__(kThreads)
    token_sums_kernel(const TokenScan scan, double* at_query, double* at_key) {
  __shared__ typename Scan::TempStorage storage;
  const SegmentEntry s = segment_of(scan, static_cast<int>(blockIdx.x));
  const SumRow row(scan, s, static_cast<int>(blockIdx.y), at_query, at_key);
  const int shift = s.keys - s.queries;
  for (int i = threadIdx.x; i < min(-shift, s.queries); i += kThreads) row.at_query[i] = 0.0;
  double before = 0.0;
  for (int first = 0; first < s.keys; first += kThreads) {
    const int t = first + static_cast<int>(threadIdx.x);
    const bool counts = t < s.keys && !is_hidden(scan, s, t);
    const double x = counts ? row.x[t] : 0.0;
    const bool finite = isfinite(x);
    const double term = finite ? scan.form.factor * x : 0.0;
    double sum = 0.0;
    double all = 0.0;
    Scan(storage).InclusiveSum(term, sum, all);
    __syncthreads();
    if (t < s.keys) {
      const double own = scan.form.running ? before + sum : -term;
      row.at_key[t] = finite ? own : static_cast<double>(NAN);
      if (t >= shift) row.at_query[t - shift] = scan.form.running ? own : 0.0;
    }
    before += all;
  }
}

// One sequence of one head of the input: the heads of the queries that read it, one after the other.
__global__ void __launch_bounds__(kThreads)
    token_sums_backward_kernel(const TokenScan scan, const float* dqueries, const float* dkeys,
                               float* dx) {
  __shared__ typename Scan::TempStorage storage;
  const SegmentEntry s = segment_of(scan, static_cast<int>(blockIdx.x));
  const int input_head = static_cast<int>(blockIdx.y);
  const int group = scan.heads / scan.input_heads;
  const std::int64_t input = static_cast<std::int64_t>(s.batch) * scan.input_heads + input_head;
  const int shift = s.keys - s.queries;
  double after = 0.0;  // of the tokens behind these
  for (int end = s.keys; end > 0; end -= kThreads) {
    const int t = end - 1 - static_cast<int>(threadIdx.x);
    double own = 0.0;  // what this token asks as a query, less what it does as a key
    for (int n = 0; t >= 0 && n < group; ++n) {
      const std::int64_t row =
          static_cast<std::int64_t>(s.batch) * scan.heads + input_head * group + n;
      own -= dkeys[row * scan.keys + s.first_key + t];
      if (scan.form.running && t >= shift) {
        own += dqueries[row * scan.queries + s.first_query + t - shift];
      }
    }
    double sum = 0.0;
    double all = 0.0;
    Scan(storage).InclusiveSum(own, sum, all);
    __syncthreads();
    if (t >= 0) {
      const double gradient = scan.form.running ? after + sum : -own;
      dx[input * scan.keys + s.first_key + t] =
          is_hidden(scan, s, t) ? 0.0f : static_cast<float>(scan.form.factor * gradient);
    }
    after += all;
  }
}

Status check_scan(const TokenScan& scan) {
  const int sequences = scan.segments != nullptr ? scan.segment_count : scan.batch;
  if (sequences >= 0 && scan.input_heads > 0 && scan.heads % scan.input_heads == 0 &&
      scan.heads <= 65535) {
    return {};
  }
  return Status::format(StatusCode::kInvalidArgument,
                        "[token_sums] the heads of the input (%d) must divide those of the queries "
                        "(%d), which are at most 65535",
                        scan.input_heads, scan.heads);
}
dim3 grid_of(const TokenScan& scan, int heads) {
  const int sequences = scan.segments != nullptr ? scan.segment_count : scan.batch;
  return {static_cast<unsigned>(sequences), static_cast<unsigned>(heads)};
}

}  // namespace

Status launch_token_sums(const TokenScan& scan, double* at_query, double* at_key,
                         Stream stream) noexcept {
  if (Status s = check_scan(scan); !s.ok()) return s;
  const dim3 grid = grid_of(scan, scan.heads);
  if (grid.x == 0) return {};
  token_sums_kernel<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(scan, at_query,
                                                                              at_key);
  return launch_status("token_sums");
}

Status launch_token_sums_backward(const TokenScan& scan, const float* dqueries, const float* dkeys,
                                  float* dx, Stream stream) noexcept {
  if (Status s = check_scan(scan); !s.ok()) return s;
  const dim3 grid = grid_of(scan, scan.input_heads);
  if (grid.x == 0) return {};
  token_sums_backward_kernel<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      scan, dqueries, dkeys, dx);
  return launch_status("token_sums_backward");
}

}  // namespace posenc::cuda
