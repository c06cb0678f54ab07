// Applies Toeplitz biases, CoPE and exponentials to a tile of raw scores in registers. A thread holds sixteen consecutive
// keys of two rows.
#pragma once

#include "encodings/score_formulas.h"
#include "kernels/cuda/device/rows.cuh"

namespace posenc::cuda {

enum Mods : int {
  kPlain = 0,
  kToeplitz = 1,
  kCope = 2,
  kTokens = 4,
  kFire = 8,
  kSoftcap = 16,
  kSticks = 32
};
// What goes along the keys of a row, which then lie in a thread as neighbours.
inline constexpr int kScans = kCope | kSticks;

inline constexpr float kLog2e = 1.4426950408889634f;
inline constexpr float kLn2 = 0.6931471805599453f;

#if defined(__CUDACC__)
__device__ inline float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline float reciprocal_fast(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// Within 2^-11 of the result.
__device__ inline float tanh_fast(float x) {
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
#else
inline float tanh_fast(float x) { return std::tanh(x); }
inline float exp2_fast(float x) { return std::exp2(x); }
inline float reciprocal_fast(float x) { return 1.0f / x; }
#endif

// The sigmoid of a gate's logit, from -log2(e) times the logit.
__device__ inline float gate_of(float exponent) {
  return reciprocal_fast(1.0f + exp2_fast(exponent));
}

// CoPE's positions are fixed-point numbers of 23 fraction bits: sums of gates are then exact, so that
// every loop over the keys, in either direction and with any tiles, computes the same positions.
inline constexpr int kPositionBits = 23;
inline constexpr std::uint32_t kPositionOne = 1u << kPositionBits;

__device__ inline std::uint32_t fixed_gate(float gate) {  // in [0, 1]
  return __float_as_uint(1.0f + gate) - 0x3f800000u;
}
__device__ inline float fraction_of(std::uint32_t position) {
  return __uint_as_float((position & (kPositionOne - 1)) | 0x3f800000u) - 1.0f;
}

// Floats of a row of a table of position logits: one entry more than there are positions (the segment
// past the last is flat), whole 16-byte words, and neighbouring rows in other banks.
__host__ __device__ inline int logit_stride(int npos) { return (npos + 4) / 4 * 4; }
// Of a call's tables: CoPE's, or those of queries times distances. 0: it has none.
__host__ __device__ inline int table_stride(const AttentionParams& p) {
  const int entries = p.cope.npos_max > 0 ? p.cope.npos_max : p.relative.entries;
  return entries > 0 ? logit_stride(entries) : 0;
}

// A window of the table: the distances of kRows rows to 64 keys, and once more 8 banks on for the lanes
// whose keys would be in the banks of others'.
template <int kRows>
struct Window {
  static constexpr int kCopy = kRows + 64 + 8;
  static constexpr int kBytes = (2 * kCopy + 16) / 16 * 16 * 4;
  static_assert(kCopy % 32 == 8);

  // Both rows' biases are w[8 h - j] with w the window at row 0 and key 0 of the thread.
  __device__ static const float* at(const float* window, int row, int column) {
    return window + row + 63 - 16 * column + (column >= 2 ? kCopy : 0);
  }
  // `place` is that of the first row.
  __device__ static void load(std::uint32_t to, const ToeplitzTable& toeplitz, int head, int place,
                              int key, int thread, int threads) {
    const float* table = toeplitz.table + head * toeplitz.head_stride;
    for (int i = thread; i < kRows + 63; i += threads) {
      const std::int64_t index = toeplitz.zero + place - key - 63 + i;
      const bool real = index >= 0 && index < toeplitz.span;
      const float* from = table + (real ? index : 0);
      copy_4_async(to + 4 * i, from, real);
      copy_4_async(to + 4 * (i + kCopy), from, real);
    }
  }
};

__device__ inline void add_biases(const float* w, float scale, Accum& x) {
  float bias[24];
#pragma unroll
  for (int u = 0; u < 24; ++u) bias[u] = w[u - 15];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
#pragma unroll
    for (int j = 0; j < 16; ++j) {
      float& s = x[j / 2][2 * h + j % 2];
      s = fmaf(s, scale, bias[8 * h - j + 15]);
    }
  }
}

// A suffix sum along a row, over this thread's keys and those after them.
struct Suffix {
  std::uint32_t after;  // the sum of the keys of the lanes after
  std::uint32_t total;  // of the whole row of the tile
};
__device__ inline Suffix suffix_of(std::uint32_t own, int column) {
  std::uint32_t sum = own;
  std::uint32_t next = __shfl_down_sync(~0u, sum, 1, 4);
  if (column < 3) sum += next;
  next = __shfl_down_sync(~0u, sum, 2, 4);
  if (column < 2) sum += next;
  return {sum - own, __shfl_sync(~0u, sum, 0, 4)};
}
// A prefix sum likewise: what the lanes before hold, and the total.
struct Prefix {
  float before;
  float total;
};
__device__ inline Prefix prefix_of(float own, int column) {
  float sum = own;
  float next = __shfl_up_sync(~0u, sum, 1, 4);
  if (column > 0) sum += next;
  next = __shfl_up_sync(~0u, sum, 2, 4);
  if (column > 1) sum += next;
  const float before = __shfl_up_sync(~0u, sum, 1, 4);
  return {column > 0 ? before : 0.0f, __shfl_sync(~0u, sum, 3, 4)};
}

// A softcap at the scores of a tuned kernel, which become shares of the cap: tanh(s / cap). `of_score` turns what a
// kernel holds, scores or products without their scale, into s / cap; `factor` turns a share into an exponent of two.
struct Softcapped {
  float of_score = 0.0f;
  float factor = 0.0f;

  __device__ Softcapped() = default;
  __device__ Softcapped(const AttentionParams& p, bool scaled)
      : of_score((scaled ? 1.0f : p.scale) / p.softcap), factor(p.softcap * kLog2e) {}
  [[nodiscard]] __device__ float share(float score) const { return tanh_fast(score * of_score); }
  __device__ static float slope(float share) { return fmaf(-share, share, 1.0f); }
  __device__ void apply(Accum& x) const {
#pragma unroll
    for (int n = 0; n < 32; ++n) x[n / 4][n % 4] = share(x[n / 4][n % 4]);
  }
};

struct CopeScores {
  float scale;  // of q . k
  bool sees_bias;
  std::uint32_t last;  // the fixed-point position npos_max - 1

  __device__ static std::uint32_t fixed(float gate) { return fixed_gate(gate); }
  __device__ static int segment(std::uint32_t position) {
    return static_cast<int>(position >> kPositionBits);
  }
  __device__ static float fraction(std::uint32_t position) { return fraction_of(position); }
};

// -log2(e) times the logit of a gate, from the raw product and, where gates see it, the bias.
template <class Terms>
__device__ inline float exponent_of(const Terms& terms, int h, int j, float product) {
  const float exponent = product * (terms.cope.scale * -kLog2e);
  if constexpr (Terms::kHasBias) {
    // The bias of a hidden key may be NaN; its gate is closed.
    if (terms.cope.sees_bias && product != -INFINITY) {
      return fmaf(terms.bias(h, j), -kLog2e, exponent);
    }
  }
  return exponent;
}

// What a chain of Toeplitz biases adds to a score and shows to a gate.
template <int kMods>
struct WindowTerms {
  static constexpr bool kHasBias = (kMods & kToeplitz) != 0;
  const CopeScores& cope;
  const float* w;
  __device__ float bias(int h, int j) const { return w[8 * h - j]; }
  __device__ float gate_exponent(int h, int j, float raw) const {
    return exponent_of(*this, h, j, raw);
  }
};

// Only the sums of a tile's gates, for both rows. Here and below a thread has 2 kN neighbouring keys.
template <class Cope, class Terms, int kN>
__device__ inline void count_gates(const Cope& cope, const Terms& terms, const float (&x)[kN][4],
                                   std::uint32_t (&carry)[2]) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    std::uint32_t sum = 0;
#pragma unroll
    for (int j = 0; j < 2 * kN; ++j) {
      sum += cope.fixed(gate_of(terms.gate_exponent(h, j, x[j / 2][2 * h + j % 2])));
    }
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    carry[h] = min(carry[h] + sum, cope.last);
  }
}

// A row's raw scores to scores with CoPE's logits and biases, carrying the sum of gates on.
template <class Cope, class Terms, int kN>
__device__ inline void add_cope_row(const Cope& cope, const Terms& terms, int h, const float* z,
                                    int column, float (&x)[kN][4], std::uint32_t& carry) {
  std::uint32_t position[2 * kN];
  std::uint32_t sum = 0;
#pragma unroll
  for (int j = 2 * kN - 1; j >= 0; --j) {
    sum += cope.fixed(gate_of(terms.gate_exponent(h, j, x[j / 2][2 * h + j % 2])));
    position[j] = sum;
  }
  const Suffix suffix = suffix_of(sum, column);
  const std::uint32_t base = carry + suffix.after;
#pragma unroll
  for (int j = 0; j < 2 * kN; ++j) {
    const std::uint32_t p = min(base + position[j], cope.last);
    const float* segment = z + cope.segment(p);
    const float low = segment[0];
    float& s = x[j / 2][2 * h + j % 2];
    const float slope = formulas::cope_slope(low, segment[1]);
    s = fmaf(s, cope.scale, formulas::cope_logit(low, slope, cope.fraction(p)));
    if constexpr (Terms::kHasBias) s += terms.bias(h, j);
  }
  carry = min(carry + suffix.total, cope.last);
}
template <int kMods>
__device__ inline void add_cope(const CopeScores& cope, const float* w, const float* const (&z)[2],
                                int column, Accum& x, std::uint32_t (&carry)[2]) {
  const WindowTerms<kMods> terms{cope, w};
#pragma unroll
  for (int h = 0; h < 2; ++h) add_cope_row(cope, terms, h, z[h], column, x, carry[h]);
}

// Where every row has counted as far as the table goes: one constant per row.
template <class Terms, int kN>
__device__ inline void add_constants(const Terms& terms, const float (&constant)[2],
                                     float (&x)[kN][4]) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
#pragma unroll
    for (int j = 0; j < 2 * kN; ++j) {
      float& s = x[j / 2][2 * h + j % 2];
      s = fmaf(s, terms.cope.scale, constant[h]);
      if constexpr (Terms::kHasBias) s += terms.bias(h, j);
    }
  }
}
template <int kMods>
__device__ inline void add_constants(const CopeScores& cope, const float* w,
                                     const float (&constant)[2], Accum& x) {
  add_constants(WindowTerms<kMods>{cope, w}, constant, x);
}

template <class Cope>
__device__ inline bool all_counted(const Cope& cope, const std::uint32_t (&carry)[2]) {
  return __all_sync(~0u, carry[0] >= cope.last && carry[1] >= cope.last);
}

// The same for kThreads threads that meet at a named barrier.
template <int kThreads, class Cope>
__device__ inline bool all_counted_by(const Cope& cope, const std::uint32_t (&carry)[2],
                                      int barrier) {
  int all;
  asm volatile(
      "{ .reg .pred p, q; setp.ne.s32 p, %1, 0; barrier.cta.red.and.pred q, %2, %3, p; "
      "selp.s32 %0, 1, 0, q; }"
      : "=r"(all)
      : "r"(static_cast<int>(carry[0] >= cope.last && carry[1] >= cope.last)), "r"(barrier),
        "n"(kThreads)
      : "memory");
  return all != 0;
}
// And for a whole warpgroup: a product needs all of it, so all of it must agree.
template <class Cope>
__device__ inline bool all_counted_in_group(const Cope& cope, const std::uint32_t (&carry)[2],
                                            int group) {
  return all_counted_by<128>(cope, carry, group + 1);
}

}  // namespace posenc::cuda
