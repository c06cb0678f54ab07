// Warp-specialised attention backward for dk and dv on sm_90a, for calls without dropout and padding mask:
// the mainloop of the consumer warpgroups.
//
// Scores are transposed, keys by queries, so weights and score gradients stay in registers as the left
// operands of dv += P^T dO and dk += dS^T Q, without a round trip through shared memory. The accumulators
// are initialised with -lse / scale (plus biases) and -delta, so that
//   P = exp2(scale log2(e) x),  dS = P y.
// A softcap applies before the log-sum-exp, so the initial value is that of the biases alone, and
//   P = exp2(cap log2(e) t - log2(e) lse),  dS = P (1 - t^2) y,  t = tanh(scale x / cap).
// Saturated CoPE adds one constant per query, which is part of the initial value. Other CoPE tiles need
// sums along keys: they use queries by keys and go through shared memory.
#pragma once

#include "kernels/cuda/device/key_stream.cuh"

namespace posenc::cuda {

#if POSENC_WGMMA

template <class T, int kDim, int kMods>
class BackwardKeyStream {
  using Block = KeyStreamBlock<T, kDim, kMods>;
  using Of = KeyStreamSizes<kDim, kMods>;
  using Layout = KeyStreamLayout<kDim, kMods>;
  static constexpr int kParts = kDim / 64;
  static constexpr bool kHasBias = (kMods & kToeplitz) != 0;
  static constexpr bool kHasTokens = (kMods & kTokens) != 0;
  static constexpr bool kAddsParts = kHasTokens || Of::kHasFire;
  static constexpr std::uint32_t kTileWords = kTileBytes / 16;  // of descriptors

 public:
  __device__ explicit BackwardKeyStream(const Block& block) : b_(block), s_(block.walk.s) {
    group_ = warpgroup() - 1;
    key_ = b_.walk.first_key + 64 * group_;
    factor_ = b_.walk.p.scale * kLog2e;
    if constexpr (Of::kHasSoftcap) factor_ = Softcapped(b_.walk.p, false).of_score;
    keys_ = descriptor_word(b_.base + group_ * kTileBytes);
    first_ = descriptor_word(b_.base + Layout::kStart);
  }

  __device__ void run() {
#pragma unroll
    for (int d = 0; d < kParts; ++d) {
      zero(dk_[d]);
      zero(dv_[d]);
    }
    const KeyWalk& walk = b_.walk;
    const Range seen = walk.seen_by(key_);
    const Range whole = walk.seen_whole(key_, seen);
#pragma unroll 1
    for (int head = 0; head < walk.heads; ++head) {
      if constexpr (kHasTokens) start_tokens(walk.kv_head * walk.heads + head);
      if constexpr (Of::kHasFire) {
        if (head > 0) load_next_table(walk.kv_head * walk.heads + head);
      }
#pragma unroll 1
      for (int tile = walk.tiles.first; tile < walk.tiles.end; ++tile) {
        b_.wait(kFull, turn_.slot, turn_.parity);
        visit(tile, tile >= seen.first && tile < seen.end, tile >= whole.first && tile < whole.end);
        turn_.next();
        slot_ = slot_ == Of::kTableSlots - 1 ? 0 : slot_ + 1;
      }
      if constexpr (kHasTokens) store_tokens(walk.kv_head * walk.heads + head);
    }
    settle();
    if (!walk.is_suspect(key_, group_, dk_, dv_, 0, 1)) store();
  }

 private:
  __device__ void store() const {
    const KeyWalk& walk = b_.walk;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int key = key_ + key_of_row(h);
      walk.template store<T>(walk.b.dk, walk.space.dk, key, dk_, walk.p.scale, h, mine_.column);
      walk.template store<T>(walk.b.dv, walk.space.dv, key, dv_, 1.0f, h, mine_.column);
    }
  }

  // Keys are the rows here, so that their parts are one number for each of the thread's two.
  __device__ void start_tokens(int head) {
    const TokenRow row(b_.walk.p, s_, head);
    const double base = row.key_base(b_.walk.first_key);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      parts_[h] = row.key_part(key_ + mine_.row[h], base) * kLog2e;
      sums_[h] = 0.0f;
    }
  }
  __device__ void store_tokens(int head) const {
    const KeyWalk& walk = b_.walk;
    if (walk.b.dtoken_keys == nullptr) return;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float sum = row_sum(sums_[h]);
      const int key = key_ + mine_.row[h];
      if (mine_.column == 0 && key < s_.keys) walk.token_gradients(head)[key] = sum;
    }
  }

  __device__ int key_of_row(int h) const {
    return Of::kScansKeys ? key_of_slot(mine_.row[h]) : mine_.row[h];
  }

  // Nothing is under way between tiles, but dk of the last one may be pending.
  __device__ void visit(int tile, bool seen, bool whole) {
    if constexpr (Of::kHasSticks) {
      if (seen && counts()) count(tile);
      release(turn_.slot);
      return;
    }
    if (!seen || counts()) {
      settle();
      if constexpr (Of::kHasCope) {
        if (seen) count(tile);
      }
      release(turn_.slot);
      return;
    }
    if constexpr (!Of::kDefer) {
      if (whole) {
        step<false, false>(tile);
      } else {
        step<true, false>(tile);
      }
      return;
    }
    if (!pending_) {
      step<true, false>(tile);
    } else if (whole) {
      step<false, true>(tile);
    } else {
      step<true, true>(tile);
    }
    pending_ = true;
  }
  __device__ bool counts() const {
    if constexpr (!Of::kScansKeys) return false;
    const int* counted = b_.rows_at(turn_.slot).counted + 2 * group_;
    return !__all_sync(~0u, counted[0] != 0 && counted[1] != 0);
  }
  // By every thread: each has read its own numbers.
  __device__ void release(int stage) { barrier_arrive(b_.barrier(kFree, stage)); }
  __device__ void settle() {
    if (!pending_) return;
    pending_ = false;
    mma_begin();
    add_rows(ds_, queries_at(turn_.before), dk_);
    mma_commit();
    mma_wait<0>();
    pin_all(dk_);
    release(turn_.before);
  }

  // Without branches between issue and wait: they would make the products wait for each other.
  template <bool kMasked, bool kPending>
  __device__ void step(int tile) {
    Accum x;
    Accum y;
    const std::uint32_t queries = queries_at(turn_.slot);
    const std::uint32_t grads = queries + Layout::kOperand / 16;
    start(x, y);
    mma_begin();
    multiply_own(keys_at(), queries, x);
    mma_commit();
    if constexpr (kPending) {
      add_rows(ds_, queries_at(turn_.before), dk_);
      mma_commit();
    }
    multiply_own(keys_at() + Layout::kOwn / 16, grads, y);
    mma_commit();
    mma_wait<kPending ? 2 : 1>();
    pin(x);
    Fragment weights;
    if constexpr (Of::kHasSoftcap) {
      make_bounded_weights<kMasked>(tile, x, weights);
    } else {
      make_weights<kMasked>(tile, x, weights);
    }
    mma_begin();
    add_rows(weights, grads, dv_);
    mma_commit();
    mma_wait<1>();
    pin(y);
    if constexpr (kPending) {
      pin_all(dk_);
      release(turn_.before);
    }
#pragma unroll
    for (int n = 0; n < 32; ++n) y[n / 4][n % 4] *= x[n / 4][n % 4];
    if constexpr (kMasked) hide_scores(tile, y, 0.0f);
    if constexpr (kHasTokens) add_row_sums(y, sums_);
    to_fragment<T>(y, ds_);
    if constexpr (!Of::kDefer) {
      mma_begin();
      add_rows(ds_, queries, dk_);
      mma_commit();
    }
    mma_wait<0>();
    pin_all(dv_);
    if constexpr (!Of::kDefer) {
      pin_all(dk_);
      release(turn_.slot);
    }
  }
  // Leaves in x what the gradients at the weights are to be multiplied by: the weights, or (softcap) weights times the
  // derivative.
  template <bool kMasked>
  __device__ void make_weights(int tile, Accum& x, Fragment& weights) {
    if constexpr (kMasked) hide_scores(tile, x);
#pragma unroll
    for (int n = 0; n < 32; ++n) {
      const float score = x[n / 4][n % 4];
      x[n / 4][n % 4] =
          exp2_fast(kAddsParts ? fmaf(score, factor_, parts_[n % 4 / 2]) : score * factor_);
    }
    if constexpr (kMasked && kAddsParts) hide_scores(tile, x, 0.0f);  // parts may be NaN
    to_fragment<T>(x, weights);
  }
  template <bool kMasked>
  __device__ void make_bounded_weights(int tile, Accum& x, Fragment& weights) {
    const float factor = b_.walk.p.softcap * kLog2e;
    const std::uint32_t shifts = smem_address(b_.rows_at(turn_.slot).scores) + 8 * mine_.column;
#pragma unroll
    for (int n = 0; n < 32; ++n) x[n / 4][n % 4] = tanh_fast(x[n / 4][n % 4] * factor_);
    if constexpr (kMasked) hide_scores(tile, x);  // weight 0
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      float shift[2];
      asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
                   : "=f"(shift[0]), "=f"(shift[1])
                   : "r"(shifts + 32 * n)
                   : "memory");
      float weight[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float share = x[n][e];
        weight[e] = exp2_fast(fmaf(share, factor, shift[e % 2]));
        x[n][e] = weight[e] * Softcapped::slope(share);
      }
      weights[n / 2][n % 2 * 2] = pack<T>(weight[0], weight[1]);
      weights[n / 2][n % 2 * 2 + 1] = pack<T>(weight[2], weight[3]);
    }
  }
  __device__ static void pin_all(Accum (&x)[kParts]) {
#pragma unroll
    for (int d = 0; d < kParts; ++d) pin(x[d]);
  }

  // Operands as low words of their descriptors; at 128 channels no register is left to keep any.
  __device__ std::uint32_t keys_at() const {
    return kDim == 64 ? keys_ : descriptor_word(b_.base + group_ * kTileBytes);
  }
  __device__ std::uint32_t queries_at(int stage) const {
    if constexpr (kDim != 64) return descriptor_word(b_.queries_at(stage));
    return first_ + static_cast<std::uint32_t>(stage) * (Layout::kStage / 16);
  }
  // x += own rows of keys or of values times rows of a tile.
  __device__ void multiply_own(std::uint32_t own, std::uint32_t rows, Accum& x) {
#pragma unroll
    for (int n = 0; n < 4 * kParts; ++n) {
      const std::uint32_t step = n % 4 * 2;
      wgmma<T, 0, 0>(x, descriptor_of(own + n / 4 * Of::kGroups * kTileWords + step),
                     descriptor_of(rows + n / 4 * kTileWords + step));
    }
  }
  // x += a times a tile, of which the sum goes along the rows.
  __device__ void add_rows(const Fragment& a, std::uint32_t tile, Accum (&x)[kParts]) {
    constexpr std::uint32_t kWide = (kTileWords - 64)
                                    << 16;  // tiles of 64 columns are so far apart
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const std::uint32_t rows = tile + n * 128;
      if constexpr (kParts == 1) {
        wgmma<T, 1>(x[0], a[n], descriptor_of(rows));
      } else {
        wgmma_wide<T>(*reinterpret_cast<Accum(*)[2]>(&x), a[n], descriptor_of(rows + kWide));
      }
    }
  }

  __device__ void start(Accum& x, Accum& y) {
    const typename Block::Rows& rows = b_.rows_at(turn_.slot);
    if constexpr (Of::kHasSoftcap) {
      zero(x);
    } else {
      spread(rows.scores, x);
    }
    if constexpr (kHasBias) add_window(rows.window, x);
    if constexpr (Of::kHasFire) add_fire(rows, x);
    pin(x);  // complete before the products begin
    spread(rows.grads, y);
    pin(y);
  }
  // A number per query to all keys.
  __device__ void spread(const float* from, Accum& x) {
    const auto* pairs = reinterpret_cast<const float2*>(from) + mine_.column;
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      const float2 pair = pairs[4 * n];
      x[n][0] = x[n][2] = pair.x;
      x[n][1] = x[n][3] = pair.y;
    }
  }
  __device__ void add_window(const float* window, Accum& x) {
    const float2* pairs =
        QueryWindow<Of::kKeys>::at(window, 64 * group_ + mine_.row[0], mine_.column);
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      const float2 own = pairs[4 * n];
      const float2 below = pairs[4 * n - 4];
      x[n][0] += own.x;
      x[n][1] += own.y;
      x[n][2] += below.x;
      x[n][3] += below.y;
    }
  }

  // By the computing warpgroups, which wait for each other.
  __device__ void load_next_table(int head) {
    compute_sync();
    load_fire_table(b_.walk.p, head, static_cast<int>(threadIdx.x) - 128, b_.fire_table(), true);
    compute_sync();
  }
  __device__ static void compute_sync() {
    asm volatile("bar.sync 7, %0;" ::"n"(128 * Of::kGroups) : "memory");
  }
  // The intercept is the same for all pairs: the exponent takes it.
  __device__ void add_fire(const typename Block::Rows& rows, Accum& x) {
    const FireEntry* table = b_.fire_table();
    const FireSpan span = rows.spans[4 * group_ + threadIdx.x / 32 % 4];
    const float2* psi =
        QueryWindow<Of::kKeys>::at(rows.window, 64 * group_ + mine_.row[0], mine_.column);
    const auto* scales = reinterpret_cast<const float2*>(rows.row_scale) + mine_.column;
    add_fire_of_queries(table, span, scales, psi, x);
    parts_[0] = parts_[1] = table[span.last].intercept * factor_;
  }

  // Queries from `low` to `high` see the key.
  __device__ void hide_scores(int tile, Accum& x, float by = -INFINITY) {
    const int shift = s_.keys - s_.queries + tile * 64 + 2 * mine_.column;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int key = key_ + key_of_row(h);
      const int low = key - s_.right - shift;
      const int high = key + s_.left - shift;
#pragma unroll
      for (int j = 0; j < 16; ++j) {
        const int column = j / 2 * 8 + j % 2;
        if (column < low || column > high) x[j / 2][2 * h + j % 2] = by;
      }
    }
  }

  // A tile that CoPE counts, or of sticks, step by step.
  __device__ void count(int tile) {
    const typename Block::Rows& state = b_.rows_at(turn_.slot);
    RowState rows;
    std::uint32_t carry[2];
    float prefix[2];
    const float* z[2] = {nullptr, nullptr};
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = mine_.row[h];
      rows.lse2[h] = state.lse2[row];
      rows.delta[h] = rows.lse2[h] == INFINITY ? 0.0f : -state.grads[row];
      carry[h] = state.carry[64 * group_ + row];
      prefix[h] = state.prefix[64 * group_ + row];
      if constexpr (Of::kHasCope) {
        z[h] = reinterpret_cast<const float*>(b_.smem + b_.table_at(slot_)) +
               row * logit_stride(b_.walk.p.cope.npos_max);
      }
    }
    Accum x;
    Accum y;
    zero(x);
    zero(y);
    const std::uint32_t queries = b_.queries_at(turn_.slot);
    mma_begin();
#pragma unroll
    for (int d = 0; d < kParts; ++d) {
      const std::uint32_t own = b_.base + (d * Of::kGroups + group_) * kTileBytes;
      const std::uint32_t part = queries + d * kTileBytes;
      multiply<T, false, false>(x, part, own);
      multiply<T, false, false>(y, part + Layout::kOperand, own + Layout::kOwn);
    }
    mma_commit();
    mma_wait<0>();
    pin(x);
    pin(y);
    const Seen seen = seen_of(s_, nullptr, mine_, tile * 64, key_);
    replace_hidden(seen, -INFINITY, x);
    replace_hidden(seen, 0.0f, y);
    if constexpr (Of::kHasSticks) {
      const float left[2] = {__uint_as_float(carry[0]), __uint_as_float(carry[1])};
      differentiate_sticks<true>(PlainSticks<true>{factor_}, mine_.column, rows, left, prefix, x,
                                 y);
    } else {
      differentiate(rows, z, carry, prefix, x, y);
    }
    replace_hidden(seen, 0.0f, x);
    replace_hidden(seen, 0.0f, y);
    add_counted(queries, x, y);
  }
  __device__ void differentiate(const RowState& rows, const float* const (&z)[2],
                                const std::uint32_t (&carry)[2], float (&prefix)[2], Accum& x,
                                Accum& y) {
    const CopeScores cope = b_.walk.cope_scores();
    if (all_counted(cope, carry)) {
      const int last = b_.walk.p.cope.npos_max - 1;
      const float constant[2] = {z[0][last], z[1][last]};
      softmax_backward<true>(without_constants(rows, constant), keep_all(), factor_, x, y);
      return;
    }
    float* const none[2] = {nullptr, nullptr};
    cope_backward<kMods, true>(cope, nullptr, z, none, mine_.column, rows, keep_all(), carry,
                               prefix, x, y);
  }
  // dv += weights^T dO, dk += ds^T q, through tiles in shared memory: both are read transposed. With
  // one tile they take turns.
  __device__ void add_counted(std::uint32_t queries, const Accum& x, const Accum& y) {
    const int first = Layout::kWeights + group_ * Layout::kGroupWeights;
    constexpr int kSecond = (Of::kWeightTiles - 1) * kTileBytes;
    std::uint8_t* own = b_.smem + first;
    store_tile<T>(own, mine_, x);
    if constexpr (Of::kWeightTiles == 2) store_tile<T>(own + kSecond, mine_, y);
    publish_smem();
    group_sync(group_);
    mma_begin();
    multiply_rows<T, true>(dv_, b_.base + first, queries + Layout::kOperand);
    if constexpr (Of::kWeightTiles == 1) {
      mma_commit();
      mma_wait<0>();
      pin_all(dv_);
      group_sync(group_);
      store_tile<T>(own, mine_, y);
      publish_smem();
      group_sync(group_);
      mma_begin();
    }
    multiply_rows<T, true>(dk_, b_.base + first + kSecond, queries);
    mma_commit();
    mma_wait<0>();
    pin_all(dv_);
    pin_all(dk_);
    group_sync(group_);  // the tiles are overwritten next
  }

  Block b_;
  const Sequence& s_;
  ThreadRows mine_;
  int group_;
  int key_;              // first of the warpgroup
  float factor_;         // of scores: to an exponent of two, or to what the softcap's tanh reads
  std::uint32_t keys_;   // low words of descriptors: the own keys,
  std::uint32_t first_;  // and the first stage
  typename Block::Turn turn_;
  int slot_ = 0;  // of CoPE's tables
  bool pending_ = false;
  float parts_[2] = {0.0f, 0.0f};  // of the own keys, or of FIRE, as exponents of two,
  float sums_[2] = {0.0f, 0.0f};   // and what the queries ask of them
  Fragment ds_;
  Accum dk_[kParts];
  Accum dv_[kParts];
};

#endif

template <class T, int kDim, int kMods>
__global__ void __launch_bounds__(KeyStreamSizes<kDim, kMods>::kThreads, 1)
    attention_backward_key_stream_kernel(const __grid_constant__ AttentionBackwardParams b,
                                         const __grid_constant__ BackwardSpace space) {
#if POSENC_WGMMA
  using Of = KeyStreamSizes<kDim, kMods>;
  extern __shared__ std::uint8_t raw_smem[];
  const KeyStreamBlock<T, kDim, kMods> block(b, space,
                                             (smem_address(raw_smem) + 1023) / 1024 * 1024);
  if (block.walk.is_idle()) return;
  block.start();
  if (warpgroup() == 0) {
    leave_registers<Of::kCopying>();
    KeyStreamCopies<T, kDim, kMods>(block).run();
  } else {
    take_registers<Of::kComputing>();
    BackwardKeyStream<T, kDim, kMods>(block).run();
  }
#endif
}

}  // namespace posenc::cuda
