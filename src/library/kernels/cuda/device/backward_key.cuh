// Attention backward for dk and dv: each warpgroup owns 64 keys and loops over all queries that attend to them, of every
// query head that shares the key head, in a fixed order.
#pragma once

#include "kernels/cuda/device/backward_key_walk.cuh"

namespace posenc::cuda {

template <int kDim, int kMods, int kGroups, int kStages>
struct KeyLayout {
  static constexpr int kOwn = kDim / 64 * kGroups * kTileBytes;  // keys, or values
  static constexpr int kOperand = kDim / 64 * kTileBytes;        // queries, or output gradients
  static constexpr int kStage = 2 * kOperand;
  static constexpr int kStart = 2 * kOwn;
  static constexpr int kWeights = kStart + kStages * kStage;  // and gradients, per warpgroup
  static constexpr int kWindow = Window<64>::kBytes;          // per warpgroup
  static constexpr int kWindows = kWeights + kGroups * 2 * kTileBytes;
  static constexpr bool kHasToeplitz = (kMods & kToeplitz) != 0;
  static constexpr int kTables = kWindows + (kHasToeplitz ? kStages * kGroups * kWindow : 0);
  static int bytes(int npos) {
    return 1024 + kTables + (npos > 0 ? kStages * 64 * logit_stride(npos) * 4 : 0);
  }
};

// kOutParts of the kDim / 64 parts of the channels are this block's to write.
template <class T, int kDim, int kMods, int kGroups, int kStages, int kOutParts>
class BackwardKey {
  using Layout = KeyLayout<kDim, kMods, kGroups, kStages>;
  static constexpr int kParts = kDim / 64;
  static constexpr int kThreads = kGroups * 128;
  // The products of a tile run while the next tile's scores are differentiated, so that its queries
  // stay one step longer. CoPE allows that where it only adds constants.
  static constexpr bool kDefer = kStages > 2;
  static constexpr bool kWide = (kMods & kCope) == 0;        // CoPE leaves too few registers
  static constexpr int kAhead = kStages - (kDefer ? 2 : 1);  // tiles under way during another
  static_assert(!kDefer || kAhead >= 1);

 public:
  __device__ BackwardKey(const AttentionBackwardParams& b, const BackwardSpace& space,
                         std::uint8_t* smem)
      : walk_(b, space), p_(b.forward), s_(walk_.s), smem_(smem), base_(smem_address(smem)) {
    constexpr int kShares = kParts / kOutParts;
    group_ = warpgroup();
    first_part_ = static_cast<int>(blockIdx.x) % kShares * kOutParts;
    walk_.begin(static_cast<int>(blockIdx.x) / kShares * kGroups * 64, kGroups * 64);
    key_ = walk_.first_key + 64 * group_;
    mask_ = key_mask_of(p_, s_);
  }

  __device__ void run() {
    if (walk_.is_idle()) return;
#pragma unroll
    for (int d = 0; d < kOutParts; ++d) {
      zero(dk_[d]);
      zero(dv_[d]);
    }
    cope_ = walk_.cope_scores();
    next_counting_ = counting_at(0);
    walk_.template load_own<T, kDim, kGroups, true, kThreads>(p_.k, base_, threadIdx.x);
    walk_.template load_own<T, kDim, kGroups, true, kThreads>(p_.v, base_ + Layout::kOwn,
                                                              threadIdx.x);
    for (int i = 0; i < kAhead; ++i) fetch(i);  // the first wait is for the keys too
    const int count = walk_.count();
    int pending = -1;
#pragma unroll 1
    for (int i = 0; i < count; ++i) {
      if constexpr (kAhead == 0) {
        __syncthreads();
        fetch(i);
      }
      copies_wait<(kAhead > 0 ? kAhead - 1 : 0)>();
      publish_smem();
      __syncthreads();
      if constexpr (kAhead > 0) fetch(i + kAhead);
      pending = step(i, pending);
    }
    if (kDefer && pending >= 0) add_keys(pending);
    copies_wait<0>();
    if (walk_.is_suspect(key_, group_, dk_, dv_, first_part_ / kOutParts, kParts / kOutParts))
      return;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int key = key_ + key_of_slot(mine_.row[h]);
      walk_.template store<T>(walk_.b.dk, walk_.space.dk, key, dk_, p_.scale, h, mine_.column,
                              first_part_);
      walk_.template store<T>(walk_.b.dv, walk_.space.dv, key, dv_, 1.0f, h, mine_.column,
                              first_part_);
    }
  }

 private:
  // Begins to copy the i-th tile of queries, of output gradients and of what goes with them.
  __device__ void fetch(int i) {
    if (i < walk_.count()) {
      const int tile = walk_.tile_of(i);
      const int head = walk_.head_of(i);
      const int stage = i % kStages;
      const std::uint32_t to = base_ + Layout::kStart + stage * Layout::kStage;
      load_tile<kDim, 64, false, kGroups * 128>(
          to, rows_of<T>(p_.q, s_.batch, head, s_.first_query), tile * 64, s_.queries, p_.head_dim);
      load_tile<kDim, 64, false, kGroups * 128>(
          to + Layout::kOperand, rows_of<T>(walk_.b.grad_out, s_.batch, head, s_.first_query),
          tile * 64, s_.queries, p_.head_dim);
      if constexpr ((kMods & kToeplitz) != 0) {
        Window<64>::load(base_ + Layout::kWindows + (stage * kGroups + group_) * Layout::kWindow,
                         p_.toeplitz, head, s_.place(tile * 64), key_, threadIdx.x % 128, 128);
      }
      if constexpr ((kMods & kCope) != 0) {
        shift_counting();
        counting_[kAhead] = next_counting_;
        next_counting_ = counting_at(i + 1);  // long before it is needed
        fetch_logits(tile, head, stage);
      }
    } else if constexpr ((kMods & kCope) != 0) {
      shift_counting();
    }
    copies_commit();
  }
  __device__ void shift_counting() {
#pragma unroll
    for (int n = 0; n < kAhead; ++n) counting_[n] = counting_[n + 1];
  }
  // Tables are only copied where some key of the block is not past them.
  __device__ void fetch_logits(int tile, int head, int stage) {
    const int stride = logit_stride(p_.cope.npos_max);
    const std::uint32_t to = base_ + Layout::kTables + stage * 64 * stride * 4;
    if (!has_logits(counting_[kAhead])) return;
    const float* from = walk_.logits_of(tile, head);
    for (int i = threadIdx.x; i < 16 * stride; i += kThreads) {
      copy_16_async(to + 16 * i, from + 4 * i);
    }
  }
  // The first tile of keys that the i-th tile of queries counts.
  __device__ int counting_at(int i) const {
    if ((kMods & kCope) == 0 || i >= walk_.count()) return 0;
    return walk_.first_counting(walk_.tile_of(i), walk_.head_of(i));
  }
  __device__ bool has_logits(int counting) const {
    return walk_.first_key / 64 + kGroups - 1 >= counting;
  }

  __device__ std::uint32_t stage_at(int i) const {
    return base_ + Layout::kStart + i % kStages * Layout::kStage;
  }

  // The i-th tile, and the products of the one before where they are pending; returns what is.
  __device__ int step(int i, int pending) {
    const int tile = walk_.tile_of(i);
    if (!walk_.sees(tile, key_)) {
      if (kDefer && pending >= 0) add_keys(pending);
      return -1;
    }
    if constexpr (!kDefer) {
      visit(i, tile);
      add_keys(i);
      return -1;
    }
    if (pending >= 0 && p_.dropout_threshold == 0 && sees_all(s_, mask_, tile * 64, key_) &&
        ((kMods & kCope) == 0 || key_ / 64 < counting_[0])) {
      overlap(i, tile);
    } else {
      if (pending >= 0) add_keys(pending);
      visit(i, tile);
    }
    return i;
  }

  __device__ void multiply_own(std::uint32_t queries, Accum& x, Accum& y) {
    zero(x);
    zero(y);
    mma_begin();
#pragma unroll
    for (int d = 0; d < kParts; ++d) {
      multiply<T, false, false>(x, queries + d * kTileBytes,
                                base_ + (d * kGroups + group_) * kTileBytes);
    }
#pragma unroll
    for (int d = 0; d < kParts; ++d) {
      multiply<T, false, false>(y, queries + Layout::kOperand + d * kTileBytes,
                                base_ + Layout::kOwn + (d * kGroups + group_) * kTileBytes);
    }
    mma_commit();
  }

  // dv += weights^T grad_out, dk += ds^T q, through tiles in shared memory: both are read transposed.
  __device__ void multiply_weights(std::uint32_t queries) {
    const std::uint32_t weights = base_ + Layout::kWeights + group_ * 2 * kTileBytes;
    mma_begin();
    multiply_rows<T, kWide>(dv_, weights, queries + Layout::kOperand + first_part_ * kTileBytes);
    multiply_rows<T, kWide>(dk_, weights + kTileBytes, queries + first_part_ * kTileBytes);
    mma_commit();
  }
  __device__ void settle_own() {
    mma_wait<0>();
#pragma unroll
    for (int d = 0; d < kOutParts; ++d) {
      pin(dv_[d]);
      pin(dk_[d]);
    }
  }
  __device__ void add_keys(int i) {
    multiply_weights(stage_at(i));
    settle_own();
  }
  // Each warp has waited for its products before the first barrier, so no warp reads the old tiles.
  __device__ void keep_weights(const Accum& x, const Accum& y) {
    std::uint8_t* own = smem_ + Layout::kWeights + group_ * 2 * kTileBytes;
    group_sync(group_);
    store_tile<T>(own, mine_, x);
    store_tile<T>(own + kTileBytes, mine_, y);
    publish_smem();
    group_sync(group_);
  }

  // No branches here: they would make the products wait for each other.
  __device__ void overlap(int i, int tile) {
    RowState rows;
    load_row_state(p_, walk_.space.delta, s_, walk_.head_of(i), tile * 64, mine_, rows);
    float last[2] = {0.0f, 0.0f};
    if constexpr ((kMods & kCope) != 0) load_last(tile, walk_.head_of(i), last);
    Accum x;
    Accum y;
    multiply_own(stage_at(i), x, y);
    multiply_weights(stage_at(i - 1));
    mma_wait<1>();
    pin(x);
    pin(y);
    const Keep all{{0xffffu, 0xffffu}, 1.0f};
    differentiate_simply(i % kStages, rows, all, last, x, y);
    pin(x);
    pin(y);
    settle_own();
    keep_weights(x, y);
  }

  __device__ void visit(int i, int tile) {
    const int head = walk_.head_of(i);
    RowState rows;
    load_row_state(p_, walk_.space.delta, s_, head, tile * 64, mine_, rows);
    std::uint32_t carry[2] = {0, 0};
    float prefix[2] = {0.0f, 0.0f};
    float last[2] = {0.0f, 0.0f};
    if constexpr ((kMods & kCope) != 0) load_sums(tile, head, carry, prefix, last);
    Accum x;
    Accum y;
    multiply_own(stage_at(i), x, y);
    mma_wait<0>();
    pin(x);
    pin(y);
    // A hidden value, or a row's own NaN, must not reach hidden pairs.
    const Seen seen = seen_of(s_, mask_, mine_, tile * 64, key_);
    replace_hidden(seen, -INFINITY, x);
    replace_hidden(seen, 0.0f, y);
    const Keep keep = keep_of(p_, s_, head, tile * 64, key_, mine_);
    differentiate(i % kStages, rows, keep, carry, prefix, last, x, y);
    replace_hidden(seen, 0.0f, x);
    replace_hidden(seen, 0.0f, y);
    keep_weights(x, y);
  }

  __device__ void load_sums(int tile, int head, std::uint32_t (&carry)[2], float (&prefix)[2],
                            float (&last)[2]) {
    const std::int64_t at = walk_.sums_at(tile, head, key_);
    load_last(tile, head, last);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const bool real = key_ / 64 >= counting_[0] && tile * 64 + mine_.row[h] < s_.queries;
      carry[h] = real ? walk_.space.carries[at + mine_.row[h]] : cope_.last;
      prefix[h] = real ? walk_.space.prefixes[at + mine_.row[h]] : 0.0f;
    }
  }
  __device__ void load_last(int tile, int head, float (&last)[2]) const {
    const float* logits = walk_.logits_of(tile, head) + p_.cope.npos_max - 1;
#pragma unroll
    for (int h = 0; h < 2; ++h) last[h] = logits[mine_.row[h] * logit_stride(p_.cope.npos_max)];
  }

  __device__ const float* window(int stage) const {
    if constexpr ((kMods & kToeplitz) == 0) return nullptr;
    const auto* start = reinterpret_cast<const float*>(
        smem_ + Layout::kWindows + (stage * kGroups + group_) * Layout::kWindow);
    return Window<64>::at(start, mine_.row[0], mine_.column);
  }

  __device__ void differentiate(int stage, const RowState& rows, const Keep& keep,
                                const std::uint32_t (&carry)[2], float (&prefix)[2],
                                const float (&last)[2], Accum& x, Accum& y) {
    if constexpr ((kMods & kCope) != 0) {
      if (!all_counted(cope_, carry)) {
        const int stride = logit_stride(p_.cope.npos_max);
        const auto* tables =
            reinterpret_cast<const float*>(smem_ + Layout::kTables) + stage * 64 * stride;
        const float* const z[2] = {tables + mine_.row[0] * stride, tables + mine_.row[1] * stride};
        float* const none[2] = {nullptr, nullptr};
        cope_backward<kMods, true>(cope_, window(stage), z, none, mine_.column, rows, keep, carry,
                                   prefix, x, y);
        return;
      }
    }
    differentiate_simply(stage, rows, keep, last, x, y);
  }
  // Where CoPE, if any, only adds constants.
  __device__ void differentiate_simply(int stage, const RowState& rows, const Keep& keep,
                                       const float (&last)[2], Accum& x, Accum& y) {
    if constexpr (kMods == kCope) {
      softmax_backward<true>(without_constants(rows, last), keep, p_.scale * kLog2e, x, y);
      return;
    }
    const float* w = window(stage);
    if constexpr ((kMods & kCope) != 0) {
      add_constants<kMods>(cope_, w, last, x);
    } else if constexpr ((kMods & kToeplitz) != 0) {
      add_biases(w, p_.scale, x);
    }
    if constexpr ((kMods & kSoftcap) != 0) {
      softcap_backward<true>(rows, keep, Softcapped(p_, (kMods & kToeplitz) != 0), x, y);
      return;
    }
    softmax_backward<true>(rows, keep, kMods == kPlain ? p_.scale * kLog2e : kLog2e, x, y);
  }

  KeyWalk walk_;
  const AttentionParams& p_;
  Sequence s_;
  std::uint8_t* smem_;
  std::uint32_t base_;
  ThreadRows mine_;
  int group_;
  int first_part_;
  int key_;  // first of the warpgroup
  const std::uint8_t* mask_;
  CopeScores cope_;
  int next_counting_ = 0;  // of the tile that is fetched next,
  int counting_[kAhead + 1] =
      {};  // and of those from the one that is worked on to the last fetched
  Accum dk_[kOutParts];
  Accum dv_[kOutParts];
};

template <class T, int kDim, int kMods, int kGroups, int kStages, int kOutParts, int kBlocks>
__global__ void __launch_bounds__(kGroups * 128, kBlocks)
    attention_backward_key_kernel(const __grid_constant__ AttentionBackwardParams b,
                                  const __grid_constant__ BackwardSpace space) {
  extern __shared__ std::uint8_t raw_smem[];
  BackwardKey<T, kDim, kMods, kGroups, kStages, kOutParts>(b, space, aligned_smem(raw_smem)).run();
}

}  // namespace posenc::cuda
