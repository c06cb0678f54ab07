// Warp-specialised attention forward on sm_90a, for calls without dropout and padding mask: the mainloop of
// the consumer warpgroups. A warpgroup overlaps the Q K^T product of the next tile and the P V product of this
// one with the softmax in between. Warpgroups issue their products in turn (ping-pong scheduling), so that
// the tensor cores run the products of one during the softmax of another. CoPE does not, because its tiles
// take different amounts of time.
//
// Weights are exp2(factor * x + offset) with an offset per row. Saturated CoPE is one constant per row, so it
// costs no more than no CoPE.
#pragma once

#include "kernels/cuda/device/output.cuh"
#include "kernels/cuda/device/sticks.cuh"
#include "kernels/cuda/device/stream.cuh"

namespace posenc::cuda {

#if POSENC_WGMMA

template <class T, int kDim, int kMods>
class StreamForward {
  using Block = StreamBlock<T, kDim, kMods>;
  using Of = StreamSizes<kDim>;
  using Layout = StreamLayout<kDim, kMods>;
  using Scores = Accum[2];
  static constexpr int kParts = kDim / 64;
  static constexpr bool kHasCope = (kMods & kCope) != 0;
  static constexpr bool kHasBias = (kMods & kToeplitz) != 0;
  static constexpr bool kHasTokens = (kMods & kTokens) != 0;
  static constexpr bool kHasFire = (kMods & kFire) != 0;
  static constexpr bool kHasSoftcap = (kMods & kSoftcap) != 0;
  static constexpr bool kHasSticks = (kMods & kSticks) != 0;
  static constexpr bool kHasWindow = kHasBias || kHasFire;
  static constexpr bool kHasStart = kHasWindow || kHasTokens;  // of accumulators, in shared memory

 public:
  __device__ explicit StreamForward(const Block& block) : b_(block) {
    group_ = warpgroup() - 1;
    query_ = b_.first_row + 64 * group_;
    factor_ = b_.params.scale * kLog2e;
    if constexpr (kHasSoftcap) {
      softcap_ = Softcapped(b_.params, false);
      factor_ = softcap_.factor;
    }
    if constexpr (kHasCope) start_cope();
    if constexpr (kHasFire) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        row_scale_[h] = row_scale_of(b_.params, b_.s, query_ + mine_.row[h]);
      }
    }
  }

  __device__ void run() {
    const int count = b_.tiles.end - b_.tiles.first;
    turns_ = {group_, count};
    const Range own = b_.tiles_of(query_, query_ + 63);
    const int first = own.end > own.first ? b_.tiles.end - own.end : count;
    const int end = own.end > own.first ? b_.tiles.end - own.first : count;
#pragma unroll
    for (int d = 0; d < kParts; ++d) zero(out_[d]);
    for (int i = 0; i < first; ++i) pass(i);
    if constexpr (kHasSticks) {
      for (int i = break_all(first, end); i < count; ++i) pass(i);
      store_sticks();
      return;
    }
    if (first < end) {
      visit(first);
      walk(first + 1, end);
      add_output(end - 1);
    }
    for (int i = end; i < count; ++i) pass(i);
    if constexpr (kHasTokens) add_row_parts();
    // Maxima are exponents of two here.
    store_and_mark<T>(b_.params, b_.s, b_.head, query_, mine_, softmax_, 1.0f, out_);
  }

 private:
  __device__ void start_cope() {
    const int npos = b_.params.cope.npos_max;
    cope_ = {b_.params.scale, false, static_cast<std::uint32_t>(npos - 1) << kPositionBits};
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      z_[h] = b_.tables() + (64 * group_ + mine_.row[h]) * logit_stride(npos);
      last_[h] = z_[h][npos - 1] * kLog2e;
      carry_[h] = query_ + mine_.row[h] < b_.s.queries ? 0 : cope_.last;
    }
  }

  // Scores had the keys' parts alone: the rest is one number per row, which only the log-sum-exp shows.
  __device__ void add_row_parts() {
    const TokenRow row(b_.params, b_.s, b_.head);
    const double base = row.query(b_.first_row);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      softmax_.maximum[h] += row.query_part(query_ + mine_.row[h], base) * kLog2e;
    }
  }

  // The tiles in between: those that CoPE counts, then those of which all rows see all keys, and the
  // masked ones before and after them.
  __device__ void walk(int i, int end) {
    if constexpr (kHasCope) {
#pragma unroll 1
      for (; i < end && !all_counted_in_group(cope_, carry_, group_); ++i) {
        add_output(i - 1);
        visit(i);
      }
    }
#pragma unroll 1
    for (; i < end && !sees_whole(i); ++i) step<true>(i);
#pragma unroll 1
    for (; i < end && sees_whole(i); ++i) step<false>(i);
#pragma unroll 1
    for (; i < end; ++i) step<true>(i);
  }
  // Sticks, until nothing is left; returns the tile that comes next. Nothing has to be scaled, so tiles differ from
  // those of a softmax in how scores become weights alone.
  __device__ int break_all(int first, int end) {
#pragma unroll
    for (int h = 0; h < 2; ++h) left_[h] = query_ + mine_.row[h] < b_.s.queries ? 0.0f : -INFINITY;
    if (first >= end) return end;
    break_first(first);
    int i = first + 1;
#pragma unroll 1
    for (; i < end && !nothing_left_by<128>(left_, group_ + 1); ++i) {
      if (sees_whole(i)) {
        break_next<false>(i);
      } else {
        break_next<true>(i);
      }
    }
    add_output(i - 1);
    return i;
  }
  __device__ void break_first(int i) {
    Scores x;
    start_scores(i, x);
    multiply_keys(i, x);
    mma_wait<0>();
    pin(x[0]);
    pin(x[1]);
    finish_scores<true>(i, x);
    break_scores<true>(x);
    keep_weights(x);
  }
  template <bool kMasked>
  __device__ void break_next(int i) {
    Scores x;
    start_scores(i, x);
    multiply_keys(i, x);
    b_.wait(kFullValues, i - 1);
    multiply_values(i - 1);
    mma_wait<1>();
    pin(x[0]);
    pin(x[1]);
    finish_scores<kMasked>(i, x);
    break_scores<kMasked>(x);
    pin(x[0]);  // the weights are made before the wait
    pin(x[1]);
    mma_wait<0>();
    pin_out();
    release(kFreeValues, i - 1);
    keep_weights(x);
  }
  template <bool kMasked>
  __device__ void break_scores(Scores& x) {
#pragma unroll
    for (int half = 1; half >= 0; --half) {
      break_sticks(PlainSticks<kMasked>{factor_}, mine_.column, x[half], left_);
    }
  }
  __device__ void keep_weights(const Scores& x) {
    to_fragment<T>(x[0], weights_[0]);
    to_fragment<T>(x[1], weights_[1]);
  }
  __device__ void store_sticks() {
    const AttentionParams& p = b_.params;
    store_rows<T>(p.out, p.head_dim, b_.s, b_.head, query_, mine_, out_, {1.0f, 1.0f});
    float lse[2];
    bool suspect = !all_finite(out_);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int own = query_ + mine_.row[h];
      lse[h] = b_.s.lowest(own) <= b_.s.highest(own) ? kLn2 * left_[h] : -INFINITY;
      suspect |= own < b_.s.queries && left_[h] != left_[h];
    }
    store_row_numbers(p, b_.s, b_.head, query_, mine_, lse);
    mark_block(p, b_.s, b_.head, query_, suspect);
  }
  // A tile of which the warpgroup sees nothing.
  __device__ void pass(int i) {
    turns_.take(i);
    turns_.give(i);
    b_.wait(kFullKeys, i);
    release(kFreeKeys, i);
    b_.wait(kFullValues, i);
    release(kFreeValues, i);
  }
  // Biases are read by every lane, so the warp is together before one of them says that it has.
  __device__ void release(int kind, int i) {
    if (kHasStart && kind == kFreeKeys) __syncwarp();
    if (mine_.lane == 0) barrier_arrive(b_.barrier(kind, i));
  }
  __device__ bool sees_whole(int i) const {
    const int key = b_.tile(i) * kStreamKeys;
    return key >= b_.s.lowest(query_ + 63) && key + kStreamKeys - 1 <= b_.s.highest(query_);
  }

  // Scores to weights, step by step.
  __device__ void visit(int i) {
    Scores x;
    start_scores(i, x);
    multiply_keys(i, x);
    turns_.give(i);
    mma_wait<0>();
    pin(x[0]);
    pin(x[1]);
    float shrink[2];
    if constexpr (kHasCope) {
      release(kFreeKeys, i);
      hide_scores(i, x);
#pragma unroll
      for (int half = 1; half >= 0; --half) count(x[half]);
      hide_scores(i, x);  // entries of the table that only hidden keys reach may be NaN
      const float none[2] = {0.0f, 0.0f};
      exponentiate(x, kLog2e, none, shrink);
    } else {
      finish_scores<true>(i, x);
      exponentiate(x, factor_, last_, shrink);
    }
    keep(x, shrink);
  }

  __device__ void count(Accum& x) {
    if (all_counted(cope_, carry_)) {
      const int last = static_cast<int>(cope_.last >> kPositionBits);
      const float constant[2] = {z_[0][last], z_[1][last]};
      add_constants<kMods>(cope_, nullptr, constant, x);
    } else {
      add_cope<kMods>(cope_, nullptr, z_, mine_.column, x, carry_);
    }
  }

  // Without branches between issue and wait: they would make the products wait for each other.
  template <bool kMasked>
  __device__ void step(int i) {
    Scores x;
    start_scores(i, x);
    multiply_keys(i, x);
    b_.wait(kFullValues, i - 1);
    multiply_values(i - 1);
    turns_.give(i);
    mma_wait<1>();
    pin(x[0]);
    pin(x[1]);
    finish_scores<kMasked>(i, x);
    float shrink[2];
    exponentiate(x, factor_, last_, shrink);
    pin(x[0]);  // the weights are made before the wait
    pin(x[1]);
    mma_wait<0>();
    pin_out();
    release(kFreeValues, i - 1);
    keep(x, shrink);
  }
  __device__ void add_output(int i) {
    b_.wait(kFullValues, i);
    multiply_values(i);
    mma_wait<0>();
    pin_out();
    release(kFreeValues, i);
  }

  __device__ void pin_out() {
#pragma unroll
    for (int d = 0; d < kParts; ++d) pin(out_[d]);
  }
  // Where no maximum of the warp has moved, there is nothing to scale.
  __device__ void keep(const Scores& x, const float (&shrink)[2]) {
    if (__any_sync(~0u, shrink[0] != 1.0f || shrink[1] != 1.0f)) {
#pragma unroll
      for (int i = 0; i < kParts * 32; ++i) out_[i / 32][i / 4 % 8][i % 4] *= shrink[i / 2 % 2];
    }
    keep_weights(x);
  }

  // What needs no tensor cores is done before the turn.
  __device__ void start_scores(int i, Scores& x) {
    b_.wait(kFullKeys, i);
    if constexpr (kHasWindow) {
      const float2* pairs =
          Layout::Pairs::at(b_.window_at(i), 64 * group_ + mine_.row[0], mine_.column);
      start_half(i, pairs, 0, x[0]);
      start_half(i, pairs, 8, x[1]);
    } else if constexpr (kHasTokens) {
      b_.token_parts(i).load(0, mine_.column, x[0]);
      b_.token_parts(i).load(8, mine_.column, x[1]);
    }
    turns_.take(i);
  }
  __device__ void start_half(int i, const float2* pairs, int first, Accum& x) {
    if constexpr (kHasFire) {
      const FireSpan span = b_.spans_at(i)[4 * group_ + threadIdx.x / 32 % 4];
      start_from_fire(b_.fire_table(), span, row_scale_, pairs, first, x);
    } else {
      start_from_biases(pairs, first, x);
    }
  }
  __device__ void multiply_keys(int i, Scores& x) {
    const std::uint32_t queries = b_.base + group_ * kTileBytes;
    mma_begin();
#pragma unroll
    for (int d = 0; d < kParts; ++d) {
      const std::uint64_t left = descriptor(queries + d * Of::kGroups * kTileBytes);
      const std::uint64_t right = descriptor(b_.keys_at(i) + d * Layout::kPart);
#pragma unroll
      for (int s = 0; s < 4; ++s) {
        wgmma_rows<T>(x, step_of<false>(left, s), step_of<false>(right, s), kHasStart || d + s > 0);
      }
    }
    mma_commit();
  }
  __device__ void multiply_values(int i) {
    mma_begin();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::uint32_t values = b_.values_at(i) + half * kTileBytes;
#pragma unroll
      for (int s = 0; s < 4; ++s) {
        if constexpr (kParts == 1) {
          wgmma<T, 1>(out_[0], weights_[half][s], step_of<true>(descriptor(values), s));
        } else {
          wgmma_wide<T>(*reinterpret_cast<Scores*>(&out_[0]), weights_[half][s],
                        step_of<true>(wide_descriptor<Layout::kPart>(values), s));
        }
      }
    }
    mma_commit();
  }

  template <bool kMasked>
  __device__ void finish_scores(int i, Scores& x) {
    release(kFreeKeys, i);
    if constexpr (kHasSoftcap) {
      softcap_.apply(x[0]);
      softcap_.apply(x[1]);
    }
    if constexpr (kMasked) hide_scores(i, x);
  }
  __device__ void hide_scores(int i, Scores& x) {
    const int key = b_.tile(i) * kStreamKeys;
    if constexpr (kHasCope || kHasSticks) {
      hide(b_.s, nullptr, mine_, query_, key, x[0]);
      hide(b_.s, nullptr, mine_, query_, key + 64, x[1]);
    } else {
      hide_in_order(b_.s, mine_, query_, key, x[0]);
      hide_in_order(b_.s, mine_, query_, key + 64, x[1]);
    }
  }

  // Maxima and sums in four parts each: chains of dependent instructions are what a warp waits for.
  __device__ void exponentiate(Scores& x, float factor, const float (&offset)[2],
                               float (&shrink)[2]) {
    float largest[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float part[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
#pragma unroll
      for (int j = 0; j < 32; ++j) {
        part[j % 4] = fmaxf(part[j % 4], x[j / 16][j / 2 % 8][2 * h + j % 2]);
      }
      largest[h] = fmaxf(fmaxf(part[0], part[1]), fmaxf(part[2], part[3]));
    }
    share_maximum(largest);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float before = softmax_.maximum[h];
      softmax_.maximum[h] = fmaxf(before, fmaf(largest[h], factor, offset[h]));
      const float shift = softmax_.maximum[h] == -INFINITY ? 0.0f : softmax_.maximum[h];
      shrink[h] = exp2_fast(before - shift);
      float part[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
      for (int j = 0; j < 32; ++j) {
        float& s = x[j / 16][j / 2 % 8][2 * h + j % 2];
        s = exp2_fast(fmaf(s, factor, offset[h] - shift));
        part[j % 4] += s;
      }
      softmax_.sum[h] = fmaf(softmax_.sum[h], shrink[h], (part[0] + part[1]) + (part[2] + part[3]));
    }
  }

  Block b_;
  Turns<Of::kGroups, !kHasCope && !kHasSticks> turns_;
  ThreadRows mine_;
  int group_;
  int query_;
  float factor_;
  Softcapped softcap_;
  CopeScores cope_;
  const float* z_[2];
  float last_[2] = {0.0f, 0.0f};  // CoPE's logit of the last position, as an exponent of two
  std::uint32_t carry_[2];
  float row_scale_[2];  // FIRE's
  float left_[2];       // of the rows' sticks, as exponents of two
  Fragment weights_[2];
  Accum out_[kParts];
  OnlineSoftmax softmax_;
};

#endif

template <class T, int kDim, int kMods>
__global__ void __launch_bounds__(StreamSizes<kDim>::kThreads, 1)
    attention_stream_kernel(const __grid_constant__ AttentionParams p) {
#if POSENC_WGMMA
  using Of = StreamSizes<kDim>;
  extern __shared__ std::uint8_t raw_smem[];
  const StreamBlock<T, kDim, kMods> block(p, aligned_smem(raw_smem));
  if (block.first_row >= block.s.queries) return;
  block.start();
  if (warpgroup() == 0) {
    leave_registers<StreamRegisters<Of::kGroups>::kCopying>();
    StreamCopies<T, kDim, kMods>(block).run();
  } else {
    take_registers<StreamRegisters<Of::kGroups>::kComputing>();
    StreamForward<T, kDim, kMods>(block).run();
  }
#endif
}

}  // namespace posenc::cuda
