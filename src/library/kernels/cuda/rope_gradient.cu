// The gradient of trained frequencies. A block sums a stretch of tokens, a second launch sums the blocks;
// both in a fixed order and in float64 across tokens, so two runs agree bit for bit.
#include <cuda_runtime.h>

#include <algorithm>

#include "kernels/cuda/device/dispatch.h"
#include "kernels/cuda/rope.h"
#include "kernels/cuda/rope_arguments.h"
#include "kernels/view_checks.h"

namespace posenc::cuda {
namespace {

constexpr const char* kOp = "rope_frequency_gradient";
constexpr int kPairs = 32;  // threads along pairs
constexpr int kTokens = 8;  // and along tokens
constexpr std::int64_t kMostBlocks = 1024;

struct GradientSide {
  const void* x = nullptr;
  const void* dy = nullptr;
  std::int64_t x_stride[3] = {};
  std::int64_t dy_stride[3] = {};
  int heads = 0;
};

struct GradientParams {
  GradientSide sides[2];
  DevicePositions positions;
  DeviceAngles angles;
  std::int64_t tokens = 0;   // of a sequence
  std::int64_t all = 0;      // batches * tokens
  std::int64_t stretch = 0;  // tokens of a block
  int dim_offset = 0;
  bool interleaved = false;
  double sign = 1.0;
  double* partial = nullptr;  // [blocks][groups x pairs]
};

// SUM over the heads of a group of y1 dy2 - y2 dy1 at one pair of one token.
template <class T>
__device__ float pair_sum(const GradientParams& p, const GradientSide& side, std::int64_t batch,
                          std::int64_t token, int group, int pair, float cos, float sin) {
  const int first = p.dim_offset + (p.interleaved ? 2 * pair : pair);
  const int second = p.interleaved ? first + 1 : first + p.angles.pairs;
  const int per_group = side.heads / p.angles.groups;
  float sum = 0.0f;
  for (int h = group * per_group; h < (group + 1) * per_group; ++h) {
    const T* x = static_cast<const T*>(side.x) + batch * side.x_stride[0] + h * side.x_stride[1] +
                 token * side.x_stride[2];
    const T* dy = static_cast<const T*>(side.dy) + batch * side.dy_stride[0] +
                  h * side.dy_stride[1] + token * side.dy_stride[2];
    const float x1 = to_float(x[first]);
    const float x2 = to_float(x[second]);
    const float y1 = x1 * cos - x2 * sin;
    const float y2 = x1 * sin + x2 * cos;
    sum += y1 * to_float(dy[second]) - y2 * to_float(dy[first]);
  }
  return sum;
}

template <class T>
__global__ void gradient_kernel(const __grid_constant__ GradientParams p) {
  __shared__ double sums[kTokens][kPairs];
  const int pair = static_cast<int>(blockIdx.y * kPairs + threadIdx.x);
  const int group = static_cast<int>(blockIdx.z);
  const std::int64_t first = blockIdx.x * p.stretch;
  const std::int64_t end = min(first + p.stretch, p.all);
  double sum = 0.0;
  for (std::int64_t t = first + threadIdx.y; pair < p.angles.pairs && t < end; t += kTokens) {
    const std::int64_t batch = t / p.tokens;
    const std::int64_t token = t % p.tokens;
    float at_token = 0.0f;
    for (int s = 0; s < 2; ++s) {
      if (p.sides[s].heads == 0) continue;
      float cos[1];
      float sin[1];
      const float* table = s == 0 ? p.angles.query : p.angles.key;
      if (!load_angles<1>(p.angles, p.positions, table, batch, token, group, pair, cos, sin)) break;
      at_token += pair_sum<T>(p, p.sides[s], batch, token, group, pair, cos[0], sin[0]);
    }
    const int axis = p.angles.axes > 1 ? p.angles.axis_of_pair[pair] : 0;
    sum += static_cast<double>(p.positions.at(batch, token, axis)) * static_cast<double>(at_token);
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || pair >= p.angles.pairs) return;
  double total = 0.0;
  for (int i = 0; i < kTokens; ++i) total += sums[i][threadIdx.x];
  const int entries = p.angles.groups * p.angles.pairs;
  p.partial[static_cast<std::int64_t>(blockIdx.x) * entries + group * p.angles.pairs + pair] =
      p.sign * total;
}

__global__ void sum_kernel(const double* partial, std::int64_t blocks, int entries, double* out) {
  const int entry = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (entry >= entries) return;
  double sum = 0.0;
  for (std::int64_t b = 0; b < blocks; ++b) sum += partial[b * entries + entry];
  out[entry] = sum;
}

GradientSide side_of(const ConstTensorView& x, const ConstTensorView& dy) {
  GradientSide side;
  if (!x.present() || x.empty()) return side;
  side.x = x.data;
  side.dy = dy.data;
  side.heads = static_cast<int>(x.heads());
  for (int d = 0; d < 3; ++d) {
    side.x_stride[d] = x.stride[static_cast<std::size_t>(d)];
    side.dy_stride[d] = dy.stride[static_cast<std::size_t>(d)];
  }
  return side;
}

std::int64_t stretch_of(const ConstTensorView& q) {
  const std::int64_t all = q.batch() * q.tokens();
  return std::max<std::int64_t>((all + kMostBlocks - 1) / kMostBlocks, kTokens);
}

std::int64_t blocks_of(const ConstTensorView& q) {
  const std::int64_t stretch = stretch_of(q);
  return (q.batch() * q.tokens() + stretch - 1) / stretch;
}

Status check_call(const RopeFrequencyGradientCall& call) noexcept {
  if (Status s = check_rope_sides(kOp, call.q, call.k, call.rotary, call.tables); !s.ok()) return s;
  if (Status s = check_same_shape(kOp, "dq_out", call.dq_out, "q", call.q); !s.ok()) return s;
  if (Status s = check_view(kOp, "dq_out", call.dq_out); !s.ok()) return s;
  if (call.k.present()) {
    if (Status s = check_same_shape(kOp, "dk_out", call.dk_out, "k", call.k); !s.ok()) return s;
    if (Status s = check_view(kOp, "dk_out", call.dk_out); !s.ok()) return s;
  }
  if (call.dinv_freq != nullptr && (call.workspace != nullptr || blocks_of(call.q) == 0)) return {};
  return {StatusCode::kInvalidArgument,
          "[rope_frequency_gradient] workspace and dinv_freq must not be null"};
}

}  // namespace

std::size_t frequency_gradient_bytes(const RopeFrequencyGradientCall& call) {
  return static_cast<std::size_t>(blocks_of(call.q) * rotary_row_floats(*call.rotary) / 2) *
         sizeof(double);
}

Status rope_frequency_gradient(const RopeFrequencyGradientCall& call, Stream stream) noexcept {
  if (Status s = check_call(call); !s.ok()) return s;
  const Rotary& rotary = *call.rotary;
  GradientParams p;
  p.sides[0] = side_of(call.q, call.dq_out);
  p.sides[1] = side_of(call.k, call.dk_out);
  p.positions = device_positions(call.positions);
  p.angles = device_angles(rotary, call.tables);
  p.tokens = std::max<std::int64_t>(call.q.tokens(), 1);
  p.all = call.q.batch() * call.q.tokens();
  p.stretch = stretch_of(call.q);
  p.dim_offset = static_cast<int>(rotary.dim_offset);
  p.interleaved = rotary.layout == PairLayout::kInterleaved;
  p.sign = rotary.inverse ? -1.0 : 1.0;
  p.partial = static_cast<double*>(call.workspace);
  const std::int64_t blocks = blocks_of(call.q);
  const auto groups = static_cast<unsigned>(rotary.groups());
  const unsigned pair_blocks = (static_cast<unsigned>(rotary.pairs()) + kPairs - 1) / kPairs;
  if (blocks > 0) {
    with_type(call.q.dtype, [&](auto type) {
      gradient_kernel<decltype(type)>
          <<<dim3(static_cast<unsigned>(blocks), pair_blocks, groups), dim3(kPairs, kTokens), 0,
             static_cast<cudaStream_t>(stream)>>>(p);
    });
  }
  const auto entries = static_cast<int>(rotary.groups() * rotary.pairs());
  constexpr int kThreads = 64;
  sum_kernel<<<static_cast<unsigned>((entries + kThreads - 1) / kThreads), kThreads, 0,
               static_cast<cudaStream_t>(stream)>>>(p.partial, blocks, entries, call.dinv_freq);
  return launch_status(kOp);
}

}  // namespace posenc::cuda
