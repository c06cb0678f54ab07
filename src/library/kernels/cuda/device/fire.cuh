// FIRE in a tile: the network is piecewise linear in u. Along a row's keys u changes slowly, so a thread loops over the
// few pieces that contain its keys, and over all of its keys for each of them.
#pragma once

#include "kernels/cuda/device/rows.cuh"

namespace posenc::cuda {

__device__ inline ToeplitzTable psi_table(const FireTable& fire, bool derivative) {
  return {derivative ? fire.dpsi : fire.psi, 0, fire.zero, fire.span};
}
__device__ inline float row_scale_of(const AttentionParams& p, const Sequence& s, int query) {
  return p.fire.row_scale[s.place(min(query, s.queries - 1)) - p.fire.lowest_place];
}

// The segment that a thread is in: low <= u < high.
struct FireSegment {
  int index = 0;
  float low = INFINITY;  // none yet
  float high = -INFINITY;
  float slope = 0.0f;
  float intercept = 0.0f;
  [[nodiscard]] __device__ bool has(float u) const { return u >= low && u < high; }
};

// One head's network.
class FireNetwork {
 public:
  __device__ FireNetwork(const FireTable& fire, int head)
      : bounds_(fire.bounds),
        slopes_(fire.slopes + static_cast<std::int64_t>(head) * fire.segments),
        intercepts_(fire.intercepts + static_cast<std::int64_t>(head) * fire.segments),
        last_(fire.segments - 1) {}

  // To the segment of u; what is not a number stays where it is.
  __device__ void seek(float u, FireSegment& at) const {
    if (at.has(u)) return;
    int index = at.index;
    while (index > 0 && u < bounds_[index]) --index;
    while (index < last_ && u >= bounds_[index + 1]) ++index;
    enter(index, at);
  }
  // To the next one, if there is one at or below u.
  __device__ bool advance(float u, FireSegment& at) const {
    if (!(u >= at.high) || at.index >= last_) return false;
    enter(at.index + 1, at);
    return true;
  }

 private:
  __device__ void enter(int index, FireSegment& at) const {
    at = {index, bounds_[index], bounds_[index + 1], slopes_[index], intercepts_[index]};
  }

  const float* bounds_;
  const float* slopes_;
  const float* intercepts_;
  int last_;
};

struct FireRange {
  float least;
  float most;
};
__device__ inline FireRange range_of(const float (&u)[16]) {
  FireRange range{u[0], u[0]};
#pragma unroll
  for (int j = 1; j < 16; ++j) range = {fminf(range.least, u[j]), fmaxf(range.most, u[j])};
  return range;
}

// Adds the biases of sixteen keys.
__device__ inline void add_fire(const FireNetwork& network, const float (&u)[16], FireSegment& at,
                                float (&bias)[16]) {
  const FireRange range = range_of(u);
  network.seek(range.least, at);
#pragma unroll
  for (int j = 0; j < 16; ++j) {  // what is not a number shows
    if (!(u[j] >= at.high)) bias[j] += fmaf(at.slope, u[j], at.intercept);
  }
  while (network.advance(range.most, at)) {
#pragma unroll
    for (int j = 0; j < 16; ++j) {
      if (at.has(u[j])) bias[j] += fmaf(at.slope, u[j], at.intercept);
    }
  }
}

// What a row's gradient adds up, the same in all four threads of a row: the sums of db u and of db in the
// segment that it is in, those of all segments in `sums`, and db slope dpsi and db slope psi.
struct FireRowSums {
  float* sums;  // [segments, 2]
  int segment;  // -1: none yet
  float of_u;
  float of_one;
  float dpsi;
  float dscale;

  __device__ void enter(int next, int column) {
    if (next == segment) return;
    flush(column);
    segment = next;
    of_u = of_one = 0.0f;
  }
  __device__ void flush(int column) {
    if (segment < 0 || column != 0) return;
    sums[2 * segment] += of_u;
    sums[2 * segment + 1] += of_one;
  }
};

// Adds the row's 64 keys of a tile, sixteen per thread; db are the gradients at the biases, and `scale` is
// the row's: psi = u / scale. Rows of a warp go on together, those that are done with nothing to add.
__device__ inline void add_fire_row(const FireNetwork& network, const float (&u)[16],
                                    const float* dpsi, float scale, int column,
                                    const float (&db)[16], FireSegment& at, FireRowSums& row) {
  FireRange range = range_of(u);
#pragma unroll
  for (int step = 1; step <= 2; ++step) {
    range = {fminf(range.least, __shfl_xor_sync(~0u, range.least, step)),
             fmaxf(range.most, __shfl_xor_sync(~0u, range.most, step))};
  }
  network.seek(range.least, at);
  bool more = true;
#pragma unroll 1
  while (__any_sync(~0u, more)) {
    float of_u = 0.0f;
    float of_one = 0.0f;
    float of_dpsi = 0.0f;
#pragma unroll
    for (int j = 0; j < 16; ++j) {
      const float d = more && at.has(u[j]) ? db[j] : 0.0f;
      of_u = fmaf(d, u[j], of_u);
      of_one += d;
      of_dpsi = fmaf(d, dpsi[-j], of_dpsi);
    }
    of_u = row_sum(of_u);
    of_one = row_sum(of_one);
    of_dpsi = row_sum(of_dpsi);
    if (more) row.enter(at.index, column);
    row.of_u += of_u;
    row.of_one += of_one;
    row.dpsi = fmaf(at.slope, of_dpsi, row.dpsi);
    row.dscale = fmaf(at.slope / scale, of_u, row.dscale);
    more = more && network.advance(range.most, at);
  }
}

}  // namespace posenc::cuda
