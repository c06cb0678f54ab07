#include <cuda_runtime.h>

#include "encodings/score_formulas.h"
#include "kernels/cuda/bias_table.h"

namespace posenc::cuda {
namespace {

// Clamps that leave NaN as it is, which fmaxf and fminf do not.
__device__ float at_least(float x, float low) { return x < low ? low : x; }
__device__ float at_most(float x, float high) { return x > high ? high : x; }

__device__ float value_of(const BiasTerm& term, int head, std::int64_t entry, float distance) {
  constexpr auto kSmallest = static_cast<float>(formulas::kKerpleSmallest);
  constexpr auto kLargest = static_cast<float>(formulas::kKerpleLargestPower);
  switch (term.form) {
    case BiasTerm::Form::kAlibi:
      return formulas::alibi(term.first[head],
                             term.one_sided ? fmaxf(distance, 0.0f) : fabsf(distance));
    case BiasTerm::Form::kKerpleLog:
      return formulas::kerple_log(at_least(term.first[head], kSmallest),
                                  at_least(term.second[head], kSmallest), fabsf(distance));
    case BiasTerm::Form::kKerplePower:
      return formulas::kerple_power(at_most(at_least(term.first[head], kSmallest), kLargest),
                                    at_least(term.second[head], kSmallest), fabsf(distance));
    default:
      return term.first[term.entries[entry] * term.entry_stride + head * term.head_stride];
  }
}

__global__ void bias_table_kernel(const __grid_constant__ BiasTableFill fill) {
  const std::int64_t entry = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (entry >= fill.span) return;
  const int head = static_cast<int>(blockIdx.y);
  const auto distance = static_cast<float>(entry - fill.before);
  float sum = 0.0f;
  for (int n = 0; n < fill.count; ++n) sum += value_of(fill.terms[n], head, entry, distance);
  fill.table[head * fill.span + entry] = sum;
}

}  // namespace

Status fill_bias_table(const BiasTableFill& fill, Stream stream) noexcept {
  if (fill.span == 0 || fill.heads == 0) return {};
  const dim3 grid(static_cast<unsigned>((fill.span + 255) / 256),
                  static_cast<unsigned>(fill.heads));
  bias_table_kernel<<<grid, 256, 0, static_cast<cudaStream_t>(stream)>>>(fill);
  return launch_status("bias_table");
}

}  // namespace posenc::cuda
