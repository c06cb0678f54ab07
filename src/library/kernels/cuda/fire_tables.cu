#include <cuda_runtime.h>

#include <algorithm>

#include "kernels/cuda/fire_tables.h"

namespace posenc::cuda {
namespace {

constexpr int kThreads = 128;

struct Tables {
  double* wide_bounds;  // [width + 2], of the segments
  float* bounds;
  float* slopes;
  float* intercepts;
  float* psi;
  float* dpsi;
  float* row_scale;
};

__device__ FireWeights weights_of(const FireTablesCall& call) {
  const double* w1 = call.parameters + 2;
  const double* w2 = w1 + 2 * call.width;
  return {w1, w1 + call.width, w2, w2 + call.heads * call.width, call.width};
}

// Units that never switch come last.
__device__ double bound_of(const FireWeights& network, std::int64_t unit) {
  const double at = network.switch_of(unit);
  return isfinite(at) ? at : INFINITY;
}
__device__ std::int64_t rank_of(const FireWeights& network, std::int64_t unit) {
  const double own = bound_of(network, unit);
  std::int64_t rank = 0;
  for (std::int64_t n = 0; n < network.width; ++n) {
    const double other = bound_of(network, n);
    rank += other < own || (other == own && n < unit) ? 1 : 0;
  }
  return rank;
}

__global__ void fill_inputs_kernel(const FireTablesCall call, const Tables to) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const double c = call.parameters[0];
  if (i < call.span) {
    const auto psi = fire_psi(c, i - call.zero);
    to.psi[i] = static_cast<float>(psi.value);
    to.dpsi[i] = static_cast<float>(psi.slope);
  }
  if (i < call.places) {
    to.row_scale[i] = static_cast<float>(
        fire_row_scale(call.init_threshold, c, call.parameters[1], call.lowest_place + i, 1.0)
            .value);
  }
  if (i < call.width) {
    const FireWeights network = weights_of(call);
    to.wide_bounds[1 + rank_of(network, i)] = bound_of(network, i);
  }
  if (i == 0) {
    to.wide_bounds[0] = -INFINITY;
    to.wide_bounds[call.width + 1] = INFINITY;
  }
}

__global__ void fill_segments_kernel(const FireTablesCall call, const Tables to) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const std::int64_t segments = call.width + 1;
  if (i <= segments) to.bounds[i] = static_cast<float>(to.wide_bounds[i]);
  if (i >= call.heads * segments) return;
  const std::int64_t segment = i % segments;
  const FireLine line = fire_line(weights_of(call), i / segments, to.wide_bounds[segment],
                                  to.wide_bounds[segment + 1]);
  to.slopes[i] = static_cast<float>(line.slope);
  to.intercepts[i] = static_cast<float>(line.intercept);
}

// Lays tables out from `memory` on, or (null) only counts.
std::size_t lay_out(const FireTablesCall& call, void* memory, Tables& to) {
  std::size_t used = 0;
  const auto take = [&]<class T>(T*& piece, std::int64_t count) {
    if (memory != nullptr) piece = reinterpret_cast<T*>(static_cast<std::byte*>(memory) + used);
    used += (static_cast<std::size_t>(count) * sizeof(T) + 255) / 256 * 256;
  };
  take(to.wide_bounds, call.width + 2);
  take(to.bounds, call.width + 2);
  take(to.slopes, call.heads * (call.width + 1));
  take(to.intercepts, call.heads * (call.width + 1));
  take(to.psi, call.span);
  take(to.dpsi, call.span);
  take(to.row_scale, call.places);
  return used;
}

unsigned blocks_for(std::int64_t threads) {
  return static_cast<unsigned>((threads + kThreads - 1) / kThreads);
}

}  // namespace

std::size_t fire_tables_bytes(const FireTablesCall& call) noexcept {
  Tables none{};
  return lay_out(call, nullptr, none);
}

Status fill_fire_tables(const FireTablesCall& call, void* memory, FireTable& table,
                        Stream stream) noexcept {
  Tables to{};
  lay_out(call, memory, to);
  const auto queue = static_cast<cudaStream_t>(stream);
  const std::int64_t inputs = std::max({call.span, call.places, call.width, std::int64_t{1}});
  fill_inputs_kernel<<<blocks_for(inputs), kThreads, 0, queue>>>(call, to);
  const std::int64_t lines = std::max(call.heads, std::int64_t{1}) * (call.width + 1) + 1;
  fill_segments_kernel<<<blocks_for(lines), kThreads, 0, queue>>>(call, to);
  table = {static_cast<int>(call.width + 1),
           to.bounds,
           to.slopes,
           to.intercepts,
           to.psi,
           to.dpsi,
           call.zero,
           call.span,
           to.row_scale,
           call.lowest_place};
  return launch_status("fire_tables");
}

}  // namespace posenc::cuda
