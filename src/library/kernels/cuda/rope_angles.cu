#include <cuda_runtime.h>

#include <algorithm>

#include "kernels/cuda/device/dispatch.h"
#include "kernels/cuda/device/rope_angles.cuh"
#include "kernels/cuda/rope_angles.h"
#include "kernels/view_checks.h"

namespace posenc::cuda {
namespace {

using Long = long long;
constexpr const char* kForward = "rope_by_angles";
constexpr const char* kBackward = "rope_by_angles_backward";
constexpr int kThreads = 256;
constexpr std::int64_t kMostChannels = 256;
constexpr std::int64_t kMostGrid = 65535;

// The accesses of a token are one after the other among the threads of a block.
__device__ inline void sum_positions(const AngleParams& p, int access, bool active,
                                     std::int64_t row, double own) {
  __shared__ double sums[kThreads];
  sums[threadIdx.x] = own;
  __syncthreads();
  if (!active || access != 0) return;
  double sum = p.adds ? static_cast<double>(p.dangles[row]) : 0.0;
  for (int i = 0; i < p.rotating; ++i) sum += sums[threadIdx.x + i];
  p.dangles[row] = static_cast<float>(sum);
}

template <class T, class Angle, int kCount, bool kInterleaved, bool kGradient>
__global__ void __launch_bounds__(kThreads, kGradient ? 2 : 3)
    rope_angles_kernel(const __grid_constant__ AngleParams p) {
  const int local = static_cast<int>(threadIdx.x) / p.accesses;
  const int access = static_cast<int>(threadIdx.x) % p.accesses;
  const int token = static_cast<int>(blockIdx.x) * p.block_tokens + local;
  const bool active = local < p.block_tokens && token < p.tokens;
  const int head = static_cast<int>(blockIdx.y);
  const int heads = static_cast<int>(gridDim.y);
  const std::int64_t batch = blockIdx.z;
  double position = 0.0;
  if (active) {
    position = AngleRotation<T, Angle, kCount, kInterleaved, kGradient>(p, batch, heads, head,
                                                                        token, access)
                   .run();
  }
  if constexpr (kGradient && sizeof(Angle) == sizeof(double)) {
    if (p.frequencies == nullptr || p.dangles == nullptr) return;
    const std::int64_t own =
        !active ? -1 : (p.token_of_row == nullptr ? token : p.token_of_row[token]);
    sum_positions(p, access, own >= 0, (batch * heads + head) * p.angle_tokens + own, position);
  }
}

// Rows of queries or of keys, as the caller gives them.
struct Rows {
  const char* name;
  const ConstTensorView& x;  // gradient: before the rotation
  const ConstTensorView& in;
  const TensorView& out;
};

Status check_rows(const char* op, const Rows& rows, const Rotary& rotary,
                  const GivenAngles& angles) noexcept {
  if (Status s = check_view(op, rows.name, rows.in); !s.ok()) return s;
  if (rows.in.channels() != rotary.head_dim || rotary.head_dim > kMostChannels) {
    return Status::format(StatusCode::kInvalidArgument,
                          "[%s] %s must have head_dim %lld channels, at most %lld, but got %lld",
                          op, rows.name, static_cast<Long>(rotary.head_dim),
                          static_cast<Long>(kMostChannels), static_cast<Long>(rows.in.channels()));
  }
  if (angles.heads < 1 || rows.in.heads() % angles.heads != 0) {
    return Status::format(StatusCode::kInvalidArgument,
                          "[%s] %s must have a multiple of the angles' %lld heads but got %lld", op,
                          rows.name, static_cast<Long>(angles.heads),
                          static_cast<Long>(rows.in.heads()));
  }
  if (angles.token_of_row == nullptr && rows.in.tokens() != angles.tokens) {
    return Status::format(StatusCode::kInvalidArgument,
                          "[%s] %s must have the angles' %lld tokens but got %lld", op, rows.name,
                          static_cast<Long>(angles.tokens), static_cast<Long>(rows.in.tokens()));
  }
  if (Status s = check_same_shape(op, "the output", rows.out, rows.name, rows.in); !s.ok()) {
    return s;
  }
  if (Status s = check_same_shape(op, "the input", rows.x, rows.name, rows.in); !s.ok()) return s;
  return check_output(op, "the output", rows.out, rows.in);
}

Status check_call(const char* op, const Rows& q, const Rows& k, const Rotary* rotary,
                  const GivenAngles& angles) noexcept {
  if (rotary == nullptr || (angles.data == nullptr && !q.in.empty())) {
    return Status::format(StatusCode::kInvalidArgument, "[%s] rotary and angles must not be null",
                          op);
  }
  if (Status s = check_rows(op, q, *rotary, angles); !s.ok()) return s;
  if (angles.heads > kMostGrid || q.in.batch() > kMostGrid) {
    return Status::format(StatusCode::kUnsupported,
                          "[%s] the CUDA kernel serves batches and heads up to %lld", op,
                          static_cast<Long>(kMostGrid));
  }
  if (!k.in.present()) return {};
  if (Status s = check_rows(op, k, *rotary, angles); !s.ok()) return s;
  if (k.in.batch() == q.in.batch() && k.in.tokens() == q.in.tokens() && k.in.dtype == q.in.dtype) {
    return {};
  }
  return Status::format(StatusCode::kInvalidArgument,
                        "[%s] k must have the batch, tokens and type of q", op);
}

AngleSide side_of(const Rows& rows, std::int64_t angle_heads, bool gradient) {
  AngleSide side;
  if (!rows.in.present() || rows.in.empty()) return side;
  side.x = gradient ? rows.x.data : nullptr;
  side.in = rows.in.data;
  side.out = rows.out.data;
  side.heads = static_cast<int>(rows.in.heads() / angle_heads);
  for (std::size_t d = 0; d < 3; ++d) {
    side.x_stride[d] = rows.x.stride[d];
    side.in_stride[d] = rows.in.stride[d];
    side.out_stride[d] = rows.out.stride[d];
  }
  return side;
}

// Whether everything starts at whole accesses of 16 bytes.
bool can_be_wide(const AngleParams& p, const Rotary& rotary, std::size_t size) {
  const auto count = static_cast<std::int64_t>(16 / size);
  std::uintptr_t bits =
      reinterpret_cast<std::uintptr_t>(p.angles) | reinterpret_cast<std::uintptr_t>(p.dangles);
  std::int64_t strides = rotary.pairs() | rotary.dim_offset | rotary.head_dim;
  for (const AngleSide& side : p.sides) {
    bits |= reinterpret_cast<std::uintptr_t>(side.x) | reinterpret_cast<std::uintptr_t>(side.in) |
            reinterpret_cast<std::uintptr_t>(side.out);
    for (int d = 0; d < 3; ++d) {
      strides |= side.in_stride[d] | side.out_stride[d];
      if (side.x != nullptr) strides |= side.x_stride[d];
    }
  }
  return bits % 16 == 0 && strides % count == 0;
}

template <class T, class Angle, int kCount, bool kGradient>
void launch(AngleParams p, const Rotary& rotary, dim3 grid, Stream stream) {
  p.rotating = static_cast<int>(rotary.pairs() / kCount);
  p.accesses = p.rotating + static_cast<int>((rotary.head_dim - rotary.rotary_dim) / kCount);
  p.block_tokens = kThreads / p.accesses;
  grid.x = static_cast<unsigned>((p.tokens + p.block_tokens - 1) / p.block_tokens);
  const auto kernel = rotary.layout == PairLayout::kInterleaved
                          ? rope_angles_kernel<T, Angle, kCount, true, kGradient>
                          : rope_angles_kernel<T, Angle, kCount, false, kGradient>;
  kernel<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(p);
}

AngleParams params_of(const Rotary& rotary, const GivenAngles& angles, std::int64_t tokens) {
  AngleParams p;
  p.angles = angles.data;
  p.frequencies = angles.frequencies;
  p.float_positions = !angles.is_float64;
  p.token_of_row = angles.token_of_row;
  p.angle_tokens = angles.tokens;
  p.tokens = static_cast<int>(tokens);
  p.pairs = static_cast<int>(rotary.pairs());
  p.dim_offset = static_cast<int>(rotary.dim_offset);
  p.direction = rotary.inverse ? -1.0f : 1.0f;
  p.magnitude = static_cast<float>(rotary.attention_factor);
  return p;
}

template <bool kGradient>
Status run(const char* op, const AngleParams& p, const ConstTensorView& rows, const Rotary& rotary,
           const GivenAngles& angles, Stream stream) {
  if (p.sides[0].in == nullptr && p.sides[1].in == nullptr) return {};
  const dim3 grid(1, static_cast<unsigned>(angles.heads), static_cast<unsigned>(rows.batch()));
  with_type(rows.dtype, [&](auto type) {
    using T = decltype(type);
    constexpr int kWide = 16 / sizeof(T);
    const bool wide = can_be_wide(p, rotary, sizeof(T));
    if (angles.is_float64 || angles.frequencies != nullptr) {
      wide ? launch<T, double, kWide, kGradient>(p, rotary, grid, stream)
           : launch<T, double, 1, kGradient>(p, rotary, grid, stream);
    } else {
      wide ? launch<T, float, kWide, kGradient>(p, rotary, grid, stream)
           : launch<T, float, 1, kGradient>(p, rotary, grid, stream);
    }
  });
  return launch_status(op);
}

}  // namespace

Status rope_by_angles(const RopeAnglesCall& call, Stream stream) noexcept {
  const Rows q{"q", call.q, call.q, call.q_out};
  const Rows k{"k", call.k, call.k, call.k_out};
  if (Status s = check_call(kForward, q, k, call.rotary, call.angles); !s.ok()) return s;
  AngleParams p = params_of(*call.rotary, call.angles, call.q.tokens());
  p.sides[0] = side_of(q, call.angles.heads, false);
  p.sides[1] = side_of(k, call.angles.heads, false);
  return run<false>(kForward, p, call.q, *call.rotary, call.angles, stream);
}

Status rope_by_angles_backward(const RopeAnglesGradientCall& call, Stream stream) noexcept {
  const Rows q{"dq_out", call.q, call.dq_out, call.dq};
  const Rows k{"dk_out", call.k, call.dk_out, call.dk};
  if (Status s = check_call(kBackward, q, k, call.rotary, call.angles); !s.ok()) return s;
  AngleParams p = params_of(*call.rotary, call.angles, call.q.tokens());
  p.sides[0] = side_of(q, call.angles.heads, true);
  p.sides[1] = side_of(k, call.angles.heads, true);
  p.dangles = call.dangles;
  p.adds = call.adds;
  return run<true>(kBackward, p, call.q, *call.rotary, call.angles, stream);
}

}  // namespace posenc::cuda
