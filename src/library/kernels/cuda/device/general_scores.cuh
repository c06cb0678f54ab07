// Every chain of modifiers on a tile of raw scores in registers: biases from tables, FIRE, and CoPE with gates from the
// scores or from a separate product. Terms that a call does not use are skipped at run time.
#pragma once

#include "kernels/cuda/device/fire.cuh"
#include "kernels/cuda/device/gradients.cuh"
#include "kernels/cuda/device/relative.cuh"
#include "kernels/cuda/device/tokens.cuh"

namespace posenc::cuda {

// Windows of a tile of 64 rows and 64 keys in shared memory, one after the other.
enum GeneralWindow : int { kBiasWindow = 0, kPsiWindow = 1, kDpsiWindow = 2 };
inline constexpr int kGeneralWindow = Window<64>::kBytes;

// Begins to copy the windows of a tile, by 128 threads; `place` is that of the first row.
__device__ inline void load_windows(std::uint32_t to, const AttentionParams& p, int head, int place,
                                    int key, bool derivative) {
  const auto load = [&](GeneralWindow window, const ToeplitzTable& table) {
    Window<64>::load(to + window * kGeneralWindow, table, head, place, key, threadIdx.x, 128);
  };
  if (p.toeplitz.table != nullptr) load(kBiasWindow, p.toeplitz);
  if (p.fire.segments == 0) return;
  load(kPsiWindow, psi_table(p.fire, false));
  if (derivative) load(kDpsiWindow, psi_table(p.fire, true));
}

// CoPE with tables of any length: positions give up fraction bits for whole ones, so that the last
// position and the gates of one more tile fit into a word.
struct LongCopeScores {
  float scale;
  bool sees_bias;
  std::uint32_t last;
  int dropped;  // bits

  __device__ LongCopeScores(const AttentionParams& p)
      : scale(p.scale), sees_bias(p.cope.gates_see_bias), last(0), dropped(0) {
    const int npos = p.cope.npos_max;
    while (npos + 64 > (1 << (32 - kPositionBits + dropped))) ++dropped;
    if (npos > 0) last = static_cast<std::uint32_t>(npos - 1) << (kPositionBits - dropped);
  }
  __device__ std::uint32_t fixed(float gate) const {
    return (fixed_gate(gate) + (1u << dropped >> 1)) >> dropped;
  }
  __device__ int segment(std::uint32_t position) const {
    return static_cast<int>(position >> (kPositionBits - dropped));
  }
  __device__ float fraction(std::uint32_t position) const {
    return fraction_of(position << dropped);
  }
};

// The biases of a thread's two rows of sixteen keys.
using Biases = float[2][16];

template <bool kGates>
struct GeneralTerms {
  static constexpr bool kHasBias = true;
  const LongCopeScores& cope;
  const Biases& biases;
  const Accum& gates;  // raw products of the gates, where they have their own
  __device__ float bias(int h, int j) const { return biases[h][j]; }
  __device__ float gate_exponent(int h, int j, float raw) const {
    return exponent_of(*this, h, j, kGates ? gates[j / 2][2 * h + j % 2] : raw);
  }
};

__device__ inline void show_gates(const Accum& gates, int h, Accum& x) {
#pragma unroll
  for (int j = 0; j < 16; ++j) {
    const float gate = gates[j / 2][2 * h + j % 2];
    if (gate != gate) x[j / 2][2 * h + j % 2] = gate;
  }
}

// The softcap of a call, exact; a cap of 0 is none, which is asked once a tile.
struct ExactSoftcap {
  float cap;

  [[nodiscard]] __device__ bool active() const { return cap > 0.0f; }
  // Bounds a score and returns the derivative.
  __device__ float apply(float& score) const {
    const float share = tanhf(score / cap);
    score = cap * share;
    return fmaf(-share, share, 1.0f);
  }
};

// What a thread keeps of the chain from tile to tile.
class GeneralChain {
 public:
  __device__ GeneralChain(const AttentionParams& p, int head, const float* windows,
                          const ThreadRows& mine)
      : p_(p), head_(head), network_(p.fire, head), windows_(windows), mine_(mine), cope_(p) {}

  [[nodiscard]] __device__ const LongCopeScores& cope() const { return cope_; }
  [[nodiscard]] __device__ ExactSoftcap softcap() const { return {p_.softcap}; }

  // For rows from `query` on; those past the last have a scale too, and no weights.
  __device__ void start_rows(const Sequence& s, int query) {
    if (p_.fire.segments == 0) return;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      row_scale_[h] = row_scale_of(p_, s, query + mine_.row[h]);
    }
  }

  // Of rows from `query` on and keys from `key` on.
  __device__ void read_biases(const Sequence& s, int query, int key, Biases& biases) {
    read_tables(biases);
    if (p_.tokens.at_key != nullptr) add_tokens(s, query, key, biases);
    if (relative_[0] != nullptr) {
      add_relative(p_.relative, relative_, s.place(query) - key, mine_, biases);
    }
  }
  // Tables of queries times distances of the thread's two rows.
  __device__ void read_relative(const float* first, const float* second) {
    relative_[0] = first;
    relative_[1] = second;
  }

  // db: the gradients at the biases; `sums` are those of the thread's two rows.
  __device__ void add_fire_gradient(const Accum& db, FireRowSums (&sums)[2]) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float u[16];
      read_inputs(h, u);
      float row[16];
#pragma unroll
      for (int j = 0; j < 16; ++j) row[j] = db[j / 2][2 * h + j % 2];
      add_fire_row(network_, u, window(kDpsiWindow) + 8 * h, row_scale_[h], mine_.column, row,
                   of_row_[h], sums[h]);
    }
  }

 private:
  __device__ void read_tables(Biases& biases) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float* w = window(kBiasWindow) + 8 * h;
#pragma unroll
      for (int j = 0; j < 16; ++j) biases[h][j] = p_.toeplitz.table != nullptr ? w[-j] : 0.0f;
      if (p_.fire.segments == 0) continue;
      float u[16];
      read_inputs(h, u);
      add_fire(network_, u, at_[h], biases[h]);
    }
  }
  __device__ void add_tokens(const Sequence& s, int query, int key, Biases& biases) const {
    const TokenRow row(p_, s, head_);
    const double at_query[2] = {row.query(query + mine_.row[0]), row.query(query + mine_.row[1])};
#pragma unroll
    for (int j = 0; j < 16; ++j) {
      const double at_key = row.key(key + 16 * mine_.column + j);
#pragma unroll
      for (int h = 0; h < 2; ++h) biases[h][j] += static_cast<float>(at_query[h] - at_key);
    }
  }
  __device__ void read_inputs(int h, float (&u)[16]) const {
    const float* psi = window(kPsiWindow) + 8 * h;
#pragma unroll
    for (int j = 0; j < 16; ++j) u[j] = psi[-j] * row_scale_[h];
  }
  __device__ const float* window(GeneralWindow which) const {
    return Window<64>::at(windows_ + which * (kGeneralWindow / 4), mine_.row[0], mine_.column);
  }

  const AttentionParams& p_;
  int head_;
  FireNetwork network_;
  const float* windows_;
  ThreadRows mine_;
  LongCopeScores cope_;
  float row_scale_[2] = {0.0f, 0.0f};
  const float* relative_[2] = {nullptr, nullptr};
  FireSegment at_[2];      // of the thread's keys,
  FireSegment of_row_[2];  // and of all four threads' of a row
};

// Raw scores to scores; `counted`: CoPE, if any, only adds constants. A gate that is NaN shows in its score:
// fixed-point positions cannot carry it.
template <bool kGates>
__device__ inline void finish_general(const LongCopeScores& cope, const ExactSoftcap& softcap,
                                      const Biases& biases, const Accum& gates, bool counted,
                                      const float* const (&z)[2], const float (&last)[2],
                                      int column, const Seen& seen, Accum& x,
                                      std::uint32_t (&carry)[2]) {
  const GeneralTerms<kGates> terms{cope, biases, gates};
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (!counted) {
      add_cope_row(cope, terms, h, z[h], column, x, carry[h]);
      if constexpr (kGates) show_gates(gates, h, x);
      continue;
    }
#pragma unroll
    for (int j = 0; j < 16; ++j) {
      float& s = x[j / 2][2 * h + j % 2];
      s = fmaf(s, cope.scale, biases[h][j] + last[h]);
    }
  }
  if (softcap.active()) {
#pragma unroll
    for (int n = 0; n < 32; ++n) softcap.apply(x[n / 4][n % 4]);
  }
  replace_hidden(seen, -INFINITY, x);  // biases may be NaN
}

// Where the gradients of a tile go.
struct GeneralTables {
  const float* z[2];
  float* dz[2];
  float last[2];
};

// Row h of general_backward where CoPE, if any, only adds constants.
template <bool kWeights, class Cap>
__device__ inline void softmax_backward_row(float scale, const Biases& biases, float last, int h,
                                            const RowState& rows, const Cap& cap, Accum& x,
                                            Accum& y) {
#pragma unroll
  for (int j = 0; j < 16; ++j) {
    float& s = x[j / 2][2 * h + j % 2];
    float& d = y[j / 2][2 * h + j % 2];
    float score = fmaf(s, scale, biases[h][j] + last);
    const float slope = cap.apply(score);
    const float weight = exp2_fast(fmaf(score, kLog2e, -rows.lse2[h]));
    d = formulas::softmax_gradient(weight, d, rows.delta[h]) * slope;
    s = kWeights ? weight : d;
  }
}

// x: raw scores, y: gradient at the weights, gates: their raw products. Leaves the gradient at the raw
// scores in y, at the gates' raw products in `gates` (kGates) and, in x, the weights for the values
// (kWeights) or the gradient at the biases; 0 for hidden pairs.
template <bool kGates, bool kWeights>
__device__ inline void general_backward(const LongCopeScores& cope, const ExactSoftcap& softcap,
                                        const Biases& biases, bool counted,
                                        const GeneralTables& tables, int column,
                                        const RowState& rows, const Keep& keep, const Seen& seen,
                                        const std::uint32_t (&carry)[2], float (&prefix)[2],
                                        Accum& gates, Accum& x, Accum& y) {
  replace_hidden(seen, 0.0f, y);
  keep_some(keep, y);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float dlogits[16];
    if (!counted) {
      const GeneralTerms<kGates> terms{cope, biases, gates};
      if constexpr (kGates) calm_row(rows, h, gates);
      const auto differentiate = [&](const auto& cap) {
        cope_backward_row<kWeights>(cope, terms, h, tables.z[h], tables.dz[h], column, rows,
                                    carry[h], prefix[h], x, y, dlogits, cap);
      };
      softcap.active() ? differentiate(softcap) : differentiate(NoSoftcap{});
    } else {
      const auto differentiate = [&](const auto& cap) {
        softmax_backward_row<kWeights>(cope.scale, biases, tables.last[h], h, rows, cap, x, y);
      };
      softcap.active() ? differentiate(softcap) : differentiate(NoSoftcap{});
#pragma unroll
      for (int j = 0; j < 16; ++j) dlogits[j] = 0.0f;
    }
#pragma unroll
    for (int j = 0; j < 16; ++j) {
      const int n = j / 2;
      const int e = 2 * h + j % 2;
      if (!kWeights && cope.sees_bias) x[n][e] += dlogits[j];
      if constexpr (kGates) {
        gates[n][e] = dlogits[j];
      } else {
        y[n][e] += dlogits[j];
      }
    }
  }
  if (kWeights) keep_some(keep, x);
  replace_hidden(seen, 0.0f, x);
  replace_hidden(seen, 0.0f, y);
  if constexpr (kGates) replace_hidden(seen, 0.0f, gates);
}

}  // namespace posenc::cuda
