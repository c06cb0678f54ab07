// Positions of tokens, their angles, and the rotation of one vectorised access.
#pragma once

#include "kernels/cuda/device/elements.cuh"

namespace posenc::cuda {

inline constexpr int kMostAxisPairs = 512;

enum class PositionsForm { kPlaces, kIds32, kIds64, kOffsets, kCumulative };

struct DevicePositions {
  PositionsForm form = PositionsForm::kPlaces;
  const void* data = nullptr;
  std::int64_t count = 0;  // entries of the cumulative lengths
  std::int64_t batch_stride = 0;
  std::int64_t token_stride = 0;
  std::int64_t axis_stride = 0;

  __device__ std::int64_t at(std::int64_t batch, std::int64_t token, int axis) const {
    const auto* wide = static_cast<const std::int64_t*>(data);
    const std::int64_t index = batch * batch_stride + token * token_stride + axis * axis_stride;
    switch (form) {
      case PositionsForm::kIds64:
        return wide[index];
      case PositionsForm::kIds32:
        return static_cast<const std::int32_t*>(data)[index];
      case PositionsForm::kOffsets:
        return wide[batch] + token;
      case PositionsForm::kCumulative:
        return token - start_of(token);
      default:
        return token;
    }
  }

 private:
  // The last start at or before the token.
  __device__ std::int64_t start_of(std::int64_t token) const {
    const auto* starts = static_cast<const std::int64_t*>(data);
    std::int64_t low = 0;
    std::int64_t high = count;  // the first start behind the token is in (low, high]
    while (high - low > 1) {
      const std::int64_t middle = (low + high) / 2;
      (starts[middle] <= token ? low : high) = middle;
    }
    return starts[low];
  }
};

struct DeviceAngles {
  const float* query = nullptr;
  const float* key = nullptr;
  std::int64_t first = 0;
  std::int64_t rows = 0;
  int groups = 1;
  int pairs = 0;
  int axes = 1;
  unsigned char axis_of_pair[kMostAxisPairs] = {};  // read only with several axes
};

// Runs of four or more are whole multiples of 16 bytes from the start of a table.
template <int kCount>
__device__ __forceinline__ void load_floats(const float* from, float (&to)[kCount]) {
  if constexpr (kCount % 4 == 0) {
#pragma unroll
    for (int i = 0; i < kCount; i += 4) {
      const float4 four = __ldg(reinterpret_cast<const float4*>(from + i));
      to[i] = four.x;
      to[i + 1] = four.y;
      to[i + 2] = four.z;
      to[i + 3] = four.w;
    }
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) to[i] = __ldg(from + i);
  }
}

// Cos and sin of kCount neighbouring pairs of a token. False where a position is not in the table.
template <int kCount>
__device__ __forceinline__ bool load_angles(const DeviceAngles& angles,
                                            const DevicePositions& positions, const float* table,
                                            std::int64_t batch, std::int64_t token, int group,
                                            int pair, float (&cos)[kCount], float (&sin)[kCount]) {
  const int entries = angles.groups * angles.pairs;
  const int at = group * angles.pairs + pair;
  if (angles.axes == 1) {
    const std::int64_t row = positions.at(batch, token, 0) - angles.first;
    if (row < 0 || row >= angles.rows) return false;
    const float* from = table + row * 2 * entries + at;
    load_floats(from, cos);
    load_floats(from + entries, sin);
    return true;
  }
  for (int i = 0; i < kCount; ++i) {
    const std::int64_t row =
        positions.at(batch, token, angles.axis_of_pair[pair + i]) - angles.first;
    if (row < 0 || row >= angles.rows) return false;
    const float* from = table + row * 2 * entries + at + i;
    cos[i] = __ldg(from);
    sin[i] = __ldg(from + entries);
  }
  return true;
}

// Turns kCount pairs in place. Half layout: a holds the first members, b the second ones. Interleaved:
// a and b each hold half of the pairs (or one member each where kCount is 1).
template <bool kInterleaved, class T, int kCount>
__device__ __forceinline__ void turn(const float (&cos)[kCount], const float (&sin)[kCount],
                                     Elements<T, kCount>& a, Elements<T, kCount>& b) {
  if constexpr (kInterleaved && kCount > 1) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      Elements<T, kCount>& run = i < kCount / 2 ? a : b;
      const int at = 2 * (i % (kCount / 2));
      const float x = to_float(run.at[at]);
      const float y = to_float(run.at[at + 1]);
      run.at[at] = from_float<T>(x * cos[i] - y * sin[i]);
      run.at[at + 1] = from_float<T>(x * sin[i] + y * cos[i]);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const float x = to_float(a.at[i]);
      const float y = to_float(b.at[i]);
      a.at[i] = from_float<T>(x * cos[i] - y * sin[i]);
      b.at[i] = from_float<T>(x * sin[i] + y * cos[i]);
    }
  }
}

}  // namespace posenc::cuda
