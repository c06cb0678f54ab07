// One thread rotates one vectorised access of a token (16 bytes of each half of its pairs) in all heads of its block, so
// cos and sin are read once and stay in registers. Consecutive threads have consecutive accesses, then consecutive
// tokens: accesses are coalesced. Queries and keys have separate blocks with consecutive heads, because fewer memory
// streams are faster.
#include <cuda_runtime.h>

#include <algorithm>

#include "kernels/cuda/device/dispatch.h"
#include "kernels/cuda/rope.h"
#include "kernels/cuda/rope_arguments.h"
#include "kernels/view_checks.h"

namespace posenc::cuda {
namespace {

constexpr const char* kOp = "rope";
constexpr int kThreads = 256;
constexpr int kInFlight = 4;  // heads whose loads are under way at once

struct Side {
  const void* in = nullptr;
  void* out = nullptr;
  std::int64_t in_stride[3] = {};
  std::int64_t out_stride[3] = {};
  int heads = 0;
};

struct RopeParams {
  Side sides[2];       // queries, keys
  int first_side = 0;  // that there is; blocks of one z serve one side
  DevicePositions positions;
  DeviceAngles angles;
  unsigned items = 0;      // batches * tokens * accesses of this launch
  unsigned tokens = 1;     // of a sequence
  unsigned accesses = 1;   // of a row: the rotated ones, then those that are copied
  unsigned turning = 0;    // accesses that are rotated
  std::int64_t batch = 0;  // of the first token
  int dim_offset = 0;
  float sign = 1.0f;  // of the sine
  int* out_of_range = nullptr;
};

// Two accesses half a window apart in either layout, so that neighbouring threads read neighbouring bytes.
// Interleaved, each holds whole pairs: the angles are two runs of half the number.
template <int kCount, bool kInterleaved>
__device__ __forceinline__ void load_turn(const RopeParams& p, const float* table,
                                          std::int64_t batch, std::int64_t token, int group,
                                          int access, float (&cos)[kCount], float (&sin)[kCount]) {
  if constexpr (kInterleaved && kCount > 1) {
    constexpr int kHalf = kCount / 2;
#pragma unroll
    for (int run = 0; run < 2; ++run) {
      float c[kHalf];
      float s[kHalf];
      const int pair = access * kHalf + run * (p.angles.pairs / 2);
      load_angles<kHalf>(p.angles, p.positions, table, batch, token, group, pair, c, s);
#pragma unroll
      for (int i = 0; i < kHalf; ++i) {
        cos[run * kHalf + i] = c[i];
        sin[run * kHalf + i] = p.sign * s[i];
      }
    }
  } else {
    load_angles<kCount>(p.angles, p.positions, table, batch, token, group, access * kCount, cos,
                        sin);
#pragma unroll
    for (int i = 0; i < kCount; ++i) sin[i] *= p.sign;
  }
}

// The block's share of `heads` neighbouring ones.
struct Share {
  int first;
  int end;
  __device__ explicit Share(int heads) {
    const int each = (heads + static_cast<int>(gridDim.y) - 1) / static_cast<int>(gridDim.y);
    first = min(static_cast<int>(blockIdx.y) * each, heads);
    end = min(first + each, heads);
  }
};

template <class T, int kCount, bool kInterleaved>
__device__ __forceinline__ void turn_heads(const Side& side, std::int64_t batch, std::int64_t token,
                                           int channel, int second, int group, int groups,
                                           const float (&cos)[kCount], const float (&sin)[kCount]) {
  const int per_group = side.heads / groups;
  const T* in = static_cast<const T*>(side.in) + batch * side.in_stride[0] +
                group * per_group * side.in_stride[1] + token * side.in_stride[2] + channel;
  T* out = static_cast<T*>(side.out) + batch * side.out_stride[0] +
           group * per_group * side.out_stride[1] + token * side.out_stride[2] + channel;
  const Share share(per_group);
  for (int h = share.first; h < share.end; h += kInFlight) {
    Elements<T, kCount> a[kInFlight];
    Elements<T, kCount> b[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      if (h + i >= share.end) break;
      const T* row = in + (h + i) * side.in_stride[1];
      a[i] = load_stream<T, kCount>(row);
      b[i] = load_stream<T, kCount>(row + second);
    }
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      if (h + i >= share.end) break;
      turn<kInterleaved>(cos, sin, a[i], b[i]);
      T* row = out + (h + i) * side.out_stride[1];
      store_stream(row, a[i]);
      store_stream(row + second, b[i]);
    }
  }
}

template <class T, int kCount>
__device__ __forceinline__ void copy_heads(const Side& side, std::int64_t batch, std::int64_t token,
                                           int channel) {
  if (side.in == side.out) return;
  const T* in = static_cast<const T*>(side.in) + batch * side.in_stride[0] +
                token * side.in_stride[2] + channel;
  T* out =
      static_cast<T*>(side.out) + batch * side.out_stride[0] + token * side.out_stride[2] + channel;
  const Share share(side.heads);
  for (int h = share.first; h < share.end; ++h) {
    store_stream(out + h * side.out_stride[1], load_stream<T, kCount>(in + h * side.in_stride[1]));
  }
}

// Whether every position of a token is in the table: all of its accesses must agree, so that a row is
// written whole or not at all.
__device__ __forceinline__ bool in_range(const RopeParams& p, std::int64_t batch,
                                         std::int64_t token) {
  for (int axis = 0; axis < p.angles.axes; ++axis) {
    const std::int64_t row = p.positions.at(batch, token, axis) - p.angles.first;
    if (row < 0 || row >= p.angles.rows) return false;
  }
  return true;
}

template <class T, int kCount, bool kInterleaved>
__global__ void __launch_bounds__(kThreads) rope_kernel(const __grid_constant__ RopeParams p) {
  const unsigned item = blockIdx.x * kThreads + threadIdx.x;
  if (item >= p.items) return;
  const unsigned access = item % p.accesses;
  const std::int64_t batch = p.batch + item / p.accesses / p.tokens;
  const std::int64_t token = item / p.accesses % p.tokens;
  if (!in_range(p, batch, token)) {
    if (p.out_of_range != nullptr) *p.out_of_range = 1;
    return;
  }
  const int which = p.first_side + static_cast<int>(blockIdx.z);
  const Side& side = p.sides[which];
  if (access >= p.turning) {
    int channel = static_cast<int>(access - p.turning) * kCount;
    if (channel >= p.dim_offset) channel += 2 * p.angles.pairs;
    copy_heads<T, kCount>(side, batch, token, channel);
    return;
  }
  constexpr bool kNeighbours = kInterleaved && kCount == 1;
  const int channel = p.dim_offset + static_cast<int>(access) * (kNeighbours ? 2 : kCount);
  const int second = kNeighbours ? 1 : p.angles.pairs;
  float cos[kCount];
  float sin[kCount];
  const float* table = which == 0 ? p.angles.query : p.angles.key;
  for (int group = 0; group < p.angles.groups; ++group) {
    load_turn<kCount, kInterleaved>(p, table, batch, token, group, static_cast<int>(access), cos,
                                    sin);
    turn_heads<T, kCount, kInterleaved>(side, batch, token, channel, second, group, p.angles.groups,
                                        cos, sin);
  }
}

Side side_of(const ConstTensorView& in, const TensorView& out) {
  Side side;
  if (!in.present() || in.empty()) return side;
  side.in = in.data;
  side.out = out.data;
  side.heads = static_cast<int>(in.heads());
  for (int d = 0; d < 3; ++d) {
    side.in_stride[d] = in.stride[static_cast<std::size_t>(d)];
    side.out_stride[d] = out.stride[static_cast<std::size_t>(d)];
  }
  return side;
}

bool is_wide(const Side& side, std::int64_t count, std::size_t size) {
  const auto bits =
      reinterpret_cast<std::uintptr_t>(side.in) | reinterpret_cast<std::uintptr_t>(side.out);
  std::int64_t strides = 0;
  for (int d = 0; d < 3; ++d) strides |= side.in_stride[d] | side.out_stride[d];
  return bits % (static_cast<std::uintptr_t>(count) * size) == 0 && strides % count == 0;
}

// Whether everything starts at whole accesses of 16 bytes.
bool can_be_wide(const RopeCall& call, const RopeParams& p) {
  const std::size_t size = dtype_size(call.q.dtype);
  const auto count = static_cast<std::int64_t>(16 / size);
  const Rotary& rotary = *call.rotary;
  return rotary.pairs() % count == 0 && rotary.dim_offset % count == 0 &&
         rotary.head_dim % count == 0 && is_wide(p.sides[0], count, size) &&
         is_wide(p.sides[1], count, size) &&
         reinterpret_cast<std::uintptr_t>(p.angles.query) % 16 == 0 &&
         reinterpret_cast<std::uintptr_t>(p.angles.key) % 16 == 0;
}

// Each block serves as many heads of a token as are in flight at once, or fewer where that would leave
// multiprocessors idle. A divisor of the heads, so that blocks do the same work.
unsigned head_splits(const RopeCall& call, unsigned blocks) {
  const auto heads = static_cast<unsigned>(std::max(call.q.heads(), call.k.heads()));
  if (call.head_splits > 0) return std::min(static_cast<unsigned>(call.head_splits), heads);
  const unsigned filling = 2u * static_cast<unsigned>(multiprocessors()) / std::max(blocks, 1u);
  const unsigned wanted = std::max(heads / kInFlight, filling);
  unsigned splits = 1;
  while (splits < wanted && splits < heads) {
    do {
      ++splits;
    } while (heads % splits != 0);
  }
  return splits;
}

template <class T, int kCount>
void launch(const RopeCall& call, RopeParams p, Stream stream) {
  const Rotary& rotary = *call.rotary;
  p.turning = static_cast<unsigned>(rotary.pairs() / kCount);
  p.accesses = p.turning + static_cast<unsigned>((rotary.head_dim - rotary.rotary_dim) / kCount);
  p.tokens = static_cast<unsigned>(call.q.tokens());
  const bool both = p.sides[0].in != nullptr && p.sides[1].in != nullptr;
  const unsigned sides = both ? 2 : 1;
  p.first_side = p.sides[0].in != nullptr ? 0 : 1;
  const std::int64_t per_sequence = call.q.tokens() * p.accesses;
  const std::int64_t most = std::max<std::int64_t>((std::int64_t{1} << 31) / per_sequence, 1);
  const auto kernel = rotary.layout == PairLayout::kInterleaved ? rope_kernel<T, kCount, true>
                                                                : rope_kernel<T, kCount, false>;
  for (; p.batch < call.q.batch(); p.batch += most) {
    const std::int64_t batches = std::min(most, call.q.batch() - p.batch);
    p.items = static_cast<unsigned>(batches * per_sequence);
    const unsigned blocks = (p.items + kThreads - 1) / kThreads;
    kernel<<<dim3(blocks, head_splits(call, blocks * sides), sides), kThreads, 0,
             static_cast<cudaStream_t>(stream)>>>(p);
  }
}

Status check_call(const RopeCall& call) noexcept {
  if (Status s = check_rope_sides(kOp, call.q, call.k, call.rotary, call.tables); !s.ok()) return s;
  if (Status s = check_same_shape(kOp, "q_out", call.q_out, "q", call.q); !s.ok()) return s;
  if (Status s = check_view(kOp, "q_out", call.q_out); !s.ok()) return s;
  if (Status s = check_output(kOp, "q_out", call.q_out, call.q); !s.ok()) return s;
  if (call.q.tokens() * call.q.channels() >= std::int64_t{1} << 31) {
    return {StatusCode::kUnsupported,
            "[rope] a sequence must have fewer than 2^31 elements a head"};
  }
  if (!call.k.present()) return {};
  if (Status s = check_same_shape(kOp, "k_out", call.k_out, "k", call.k); !s.ok()) return s;
  if (Status s = check_view(kOp, "k_out", call.k_out); !s.ok()) return s;
  return check_output(kOp, "k_out", call.k_out, call.k);
}

}  // namespace

Status rope(const RopeCall& call, Stream stream) noexcept {
  if (Status s = check_call(call); !s.ok()) return s;
  RopeParams p;
  p.sides[0] = side_of(call.q, call.q_out);
  p.sides[1] = side_of(call.k, call.k_out);
  if (p.sides[0].in == nullptr && p.sides[1].in == nullptr) return {};
  p.positions = device_positions(call.positions);
  p.angles = device_angles(*call.rotary, call.tables);
  p.dim_offset = static_cast<int>(call.rotary->dim_offset);
  p.sign = call.transposed ? -1.0f : 1.0f;
  p.out_of_range = call.out_of_range;
  with_type(call.q.dtype, [&](auto type) {
    using T = decltype(type);
    if (can_be_wide(call, p)) {
      launch<T, 16 / sizeof(T)>(call, p, stream);
    } else {
      launch<T, 1>(call, p, stream);
    }
  });
  return launch_status(kOp);
}

}  // namespace posenc::cuda
