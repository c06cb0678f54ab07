// Tables of cos and sin, by the formula of Rotary::angle and Rotary::magnitude in float64.
#include <cuda_runtime.h>

#include "kernels/cuda/rope.h"

namespace posenc::cuda {
namespace {

struct TableParams {
  const double* frequencies = nullptr;
  const double* log_zeta = nullptr;  // null for RoPE
  double attention_factor = 1.0;
  double center = 0.0;
  double scale_base = 1.0;
  double power_sign = 1.0;
  bool inverse = false;
  bool narrow = false;  // the angle is a product in float32 (precision=hf)
  int entries = 0;
  int pairs = 0;
  std::int64_t first = 0;
  std::int64_t count = 0;  // rows * entries
};

__global__ void table_kernel(const TableParams p, float* __restrict__ table) {
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (index >= p.count) return;
  const std::int64_t row = index / p.entries;
  const int entry = static_cast<int>(index % p.entries);
  const auto position = static_cast<double>(p.first + row);
  const double frequency = p.frequencies[entry];
  double angle = p.narrow ? static_cast<double>(__fmul_rn(static_cast<float>(p.first + row),
                                                          static_cast<float>(frequency)))
                          : position * frequency;
  if (p.inverse) angle = -angle;
  double magnitude = p.attention_factor;
  if (p.log_zeta != nullptr) {
    magnitude *=
        exp(p.power_sign * ((position - p.center) / p.scale_base) * p.log_zeta[entry % p.pairs]);
  }
  double sine = 0.0;
  double cosine = 0.0;
  sincos(angle, &sine, &cosine);
  float* to = table + row * 2 * p.entries + entry;
  to[0] = static_cast<float>(magnitude * cosine);
  to[p.entries] = static_cast<float>(magnitude * sine);
}

}  // namespace

std::int64_t rotary_row_floats(const Rotary& rotary) {
  return 2 * rotary.groups() * rotary.pairs();
}

std::vector<double> rotary_constants(const Rotary& rotary) {
  std::vector<double> constants;
  for (const std::vector<double>& group : rotary.inv_freq) {
    constants.insert(constants.end(), group.begin(), group.end());
  }
  constants.insert(constants.end(), rotary.log_zeta.begin(), rotary.log_zeta.end());
  return constants;
}

Status fill_rotary_table(const RotaryTableFill& fill, Stream stream) noexcept {
  if (fill.rotary == nullptr || fill.constants == nullptr || fill.table == nullptr) {
    return {StatusCode::kInvalidArgument,
            "[rotary_table] rotary, constants and table must not be null"};
  }
  const Rotary& rotary = *fill.rotary;
  TableParams p;
  p.entries = static_cast<int>(rotary.groups() * rotary.pairs());
  p.pairs = static_cast<int>(rotary.pairs());
  p.frequencies = fill.constants;
  if (!rotary.log_zeta.empty()) p.log_zeta = fill.constants + p.entries;
  p.attention_factor = rotary.attention_factor;
  p.center = rotary.center;
  p.scale_base = rotary.scale_base;
  p.power_sign = fill.role == Role::kQuery ? 1.0 : -1.0;
  p.inverse = rotary.inverse;
  p.narrow = rotary.precision == Precision::kHf;
  p.first = fill.first;
  p.count = fill.rows * p.entries;
  if (p.count <= 0) return {};
  constexpr int kThreads = 256;
  const auto blocks = static_cast<unsigned>((p.count + kThreads - 1) / kThreads);
  table_kernel<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(p, fill.table);
  return launch_status("rotary_table");
}

}  // namespace posenc::cuda
