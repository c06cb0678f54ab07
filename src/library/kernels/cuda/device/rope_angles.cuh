// One thread rotates one access of a token (16 bytes of each half of its pairs) in all rows that share its angles, of
// queries and keys: cos and sin are computed once, and the angles' gradient is summed in registers.
#pragma once

#include "kernels/cuda/device/rope.cuh"

namespace posenc::cuda {

// Rows of one angle head.
struct AngleSide {
  const void* x = nullptr;   // gradient: the rows before the rotation
  const void* in = nullptr;  // what is rotated
  void* out = nullptr;
  std::int64_t x_stride[3] = {};
  std::int64_t in_stride[3] = {};
  std::int64_t out_stride[3] = {};
  int heads = 0;
};

struct AngleParams {
  AngleSide sides[2];  // queries, keys
  const void* angles = nullptr;
  const double* frequencies = nullptr;
  bool float_positions = false;  // of the angles' float32, where there are frequencies
  const std::int64_t* token_of_row = nullptr;
  float* dangles = nullptr;
  std::int64_t angle_tokens = 0;
  int tokens = 0;
  int block_tokens = 0;  // tokens of a block of threads
  int accesses = 1;      // of a row: those that rotate, then those that are copied
  int rotating = 0;
  int pairs = 0;
  int dim_offset = 0;
  float direction = 1.0f;  // of the angles: -1 for an inverse rotation
  float magnitude = 1.0f;
  bool adds = false;
};

inline constexpr double kTwoPi = 6.283185307179586;
inline constexpr double kTwoPiRest = 2.4492935982947064e-16;
inline constexpr double kFarAngle =
    1e8;  // up to here two products with a whole number are exact enough

static __device__ __attribute__((noinline)) float2 far_cos_sin(double angle) {
  double s;
  double c;
  sincos(angle, &s, &c);
  return {static_cast<float>(c), static_cast<float>(s)};
}
__device__ __forceinline__ void cos_sin(float angle, float& c, float& s) { sincosf(angle, &s, &c); }
// Reduced modulo 2 pi in float64, because float32 would lose the fraction of large angles.
__device__ __forceinline__ void cos_sin(double angle, float& c, float& s) {
  if (fabs(angle) > kFarAngle) {
    const float2 both = far_cos_sin(angle);
    c = both.x;
    s = both.y;
    return;
  }
  const double turns = rint(angle * (1.0 / kTwoPi));
  const double rest = fma(-turns, kTwoPiRest, fma(-turns, kTwoPi, angle));
  cos_sin(static_cast<float>(rest), c, s);
}

template <int kCount>
__device__ __forceinline__ void load_run(const float* from, float (&to)[kCount]) {
  load_floats(from, to);
}
template <int kCount>
__device__ __forceinline__ void load_run(const double* from, double (&to)[kCount]) {
  if constexpr (kCount % 2 == 0) {
#pragma unroll
    for (int i = 0; i < kCount; i += 2) {
      const double2 two = __ldg(reinterpret_cast<const double2*>(from + i));
      to[i] = two.x;
      to[i + 1] = two.y;
    }
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) to[i] = __ldg(from + i);
  }
}

// A thread's pairs are one run of kCount, or interleaved two runs of half as many, half a window apart.
template <int kCount, bool kInterleaved>
struct PairRuns {
  static constexpr bool kTwo = kInterleaved && kCount > 1;
  static constexpr int kRun = kTwo ? kCount / 2 : kCount;
  static constexpr int kRuns = kCount / kRun;

  __device__ static int first(const AngleParams& p, int access, int run) {
    return access * kRun + run * (p.pairs / 2);
  }
};

// A thread's share of a row: two accesses.
template <class T, int kCount, bool kInterleaved>
struct PairShare {
  Elements<T, kCount> a;
  Elements<T, kCount> b;

  // Member 0 or 1 of pair i.
  __device__ __forceinline__ T& member(int i, int which) {
    if constexpr (kInterleaved && kCount > 1) {
      return (i < kCount / 2 ? a : b).at[2 * (i % (kCount / 2)) + which];
    } else {
      return which == 0 ? a.at[i] : b.at[i];
    }
  }
  __device__ __forceinline__ void load(const T* row, int second) {
    a = load_stream<T, kCount>(row);
    b = load_stream<T, kCount>(row + second);
  }
  __device__ __forceinline__ void store(T* row, int second) const {
    store_stream(row, a);
    store_stream(row + second, b);
  }
};

// Row n of those that share an angle head: queries first.
template <class T>
struct AngleRow {
  const T* x;
  const T* in;
  T* out;

  __device__ AngleRow(const AngleParams& p, std::int64_t batch, int head, std::int64_t token,
                      int n) {
    const AngleSide& side = p.sides[n < p.sides[0].heads ? 0 : 1];
    if (n >= p.sides[0].heads) n -= p.sides[0].heads;
    const std::int64_t row = static_cast<std::int64_t>(head) * side.heads + n;
    const auto at = [&](const std::int64_t(&stride)[3]) {
      return batch * stride[0] + row * stride[1] + token * stride[2];
    };
    x = side.x == nullptr ? nullptr : static_cast<const T*>(side.x) + at(side.x_stride);
    in = static_cast<const T*>(side.in) + at(side.in_stride);
    out = static_cast<T*>(side.out) + at(side.out_stride);
  }
};

// Positions take the kernel for angles in float64, whatever their own type.
template <class T, class Angle, int kCount, bool kInterleaved, bool kGradient>
class AngleRotation {
  using Runs = PairRuns<kCount, kInterleaved>;
  using Share = PairShare<T, kCount, kInterleaved>;
  static constexpr int kInFlight = kGradient ? 2 : 4;  // rows whose loads are under way together
  static constexpr bool kHasPositions = sizeof(Angle) == sizeof(double);
  static constexpr bool kNeighbours = kInterleaved && kCount == 1;

 public:
  __device__ AngleRotation(const AngleParams& p, std::int64_t batch, int angle_heads, int head,
                           std::int64_t token, int access)
      : p_(p), batch_(batch), head_(head), token_(token), access_(access) {
    own_ = p.token_of_row == nullptr ? token : p.token_of_row[token];
    angle_row_ = (batch * angle_heads + head) * p.angle_tokens + own_;
  }

  // Returns what the gradient asks of the token's position, where angles are of positions.
  __device__ double run() {
    if (access_ >= p_.rotating) {
      copy();
      return 0.0;
    }
    const int channel = p_.dim_offset + access_ * (kNeighbours ? 2 : kCount);
    const int second = kNeighbours ? 1 : p_.pairs;
    const int rows = p_.sides[0].heads + p_.sides[1].heads;
#pragma unroll 1
    for (int first = 0; first < rows; first += kInFlight) {
      Share in[kInFlight];
      Share x[kGradient ? kInFlight : 1];
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        if (first + i >= rows) break;
        const AngleRow<T> row(p_, batch_, head_, token_, first + i);
        in[i].load(row.in + channel, second);
        if constexpr (kGradient) x[i].load(row.x + channel, second);
      }
      if (first == 0) load_angles();  // while the rows are under way
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        if (first + i >= rows) break;
        rotate(in[i], x[kGradient ? i : 0]);
        in[i].store(AngleRow<T>(p_, batch_, head_, token_, first + i).out + channel, second);
      }
    }
    return kGradient ? store_gradient() : 0.0;
  }

 private:
  __device__ void copy() const {
    int channel = (access_ - p_.rotating) * kCount;
    if (channel >= p_.dim_offset) channel += 2 * p_.pairs;
    const int rows = p_.sides[0].heads + p_.sides[1].heads;
    for (int n = 0; n < rows; ++n) {
      const AngleRow<T> row(p_, batch_, head_, token_, n);
      if (row.in == row.out) continue;
      store_stream(row.out + channel, load_stream<T, kCount>(row.in + channel));
    }
  }

  __device__ __forceinline__ void load_angles() {
    const auto* angles = static_cast<const Angle*>(p_.angles);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      cos_[i] = p_.magnitude;
      sin_[i] = 0.0f;
    }
    if (own_ < 0) return;
    if (kHasPositions && p_.frequencies != nullptr) {
      const double position =
          p_.float_positions ? static_cast<double>(static_cast<const float*>(p_.angles)[angle_row_])
                             : static_cast<const double*>(p_.angles)[angle_row_];
#pragma unroll
      for (int i = 0; i < kCount; ++i) set(i, position * frequency(i));
      return;
    }
#pragma unroll
    for (int run = 0; run < Runs::kRuns; ++run) {
      Angle own[Runs::kRun];
      load_run(angles + angle_row_ * p_.pairs + Runs::first(p_, access_, run), own);
#pragma unroll
      for (int i = 0; i < Runs::kRun; ++i) set(run * Runs::kRun + i, own[i]);
    }
  }
  __device__ __forceinline__ double frequency(int i) const {
    const int pair = Runs::first(p_, access_, i / Runs::kRun) + i % Runs::kRun;
    return __ldg(p_.frequencies + head_ * p_.pairs + pair);
  }
  // The gradient rotates back.
  template <class Number>
  __device__ __forceinline__ void set(int i, Number angle) {
    float c;
    float s;
    cos_sin(angle, c, s);
    cos_[i] = p_.magnitude * c;
    sin_[i] = (kGradient ? -p_.direction : p_.direction) * p_.magnitude * s;
  }

  __device__ __forceinline__ void rotate(Share& in, Share& x) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const float u = to_float(in.member(i, 0));
      const float v = to_float(in.member(i, 1));
      const float first = u * cos_[i] - v * sin_[i];
      const float second = u * sin_[i] + v * cos_[i];
      if constexpr (kGradient) {
        sum_[i] += to_float(x.member(i, 0)) * second - to_float(x.member(i, 1)) * first;
      }
      in.member(i, 0) = from_float<T>(first);
      in.member(i, 1) = from_float<T>(second);
    }
  }

  __device__ double store_gradient() {
    if (p_.dangles == nullptr || own_ < 0) return 0.0;
    double position = 0.0;
    if (kHasPositions && p_.frequencies != nullptr) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        position += frequency(i) * static_cast<double>(p_.direction * sum_[i]);
      }
      return position;
    }
#pragma unroll
    for (int run = 0; run < Runs::kRuns; ++run) {
      float* to = p_.dangles + angle_row_ * p_.pairs + Runs::first(p_, access_, run);
      Elements<float, Runs::kRun> values;
#pragma unroll
      for (int i = 0; i < Runs::kRun; ++i) {
        values.at[i] = p_.direction * sum_[run * Runs::kRun + i] + (p_.adds ? to[i] : 0.0f);
      }
#pragma unroll
      for (int i = 0; i < Runs::kRun; i += kWord) {
        Elements<float, kWord> word;
#pragma unroll
        for (int e = 0; e < kWord; ++e) word.at[e] = values.at[i + e];
        store_stream(to + i, word);
      }
    }
    return 0.0;
  }
  static constexpr int kWord = Runs::kRun % 4 == 0 ? 4 : 1;

  const AngleParams& p_;
  std::int64_t batch_;
  int head_;
  std::int64_t token_;
  int access_;
  std::int64_t own_;        // the token whose angles these are, or -1
  std::int64_t angle_row_;  // of the angles
  float cos_[kCount];
  float sin_[kCount];
  float sum_[kCount] = {};
};

}  // namespace posenc::cuda
