// Attention backward for the keys and values: each warpgroup owns 64 keys and goes through all queries
// that see them, of every query head that reads this key head, in a fixed order.
#pragma once

#include "kernels/cuda/device/backward_space.cuh"
#include "kernels/cuda/device/gradients.cuh"

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
  static constexpr bool kWide = (kMods & kCope) == 0;  // beside CoPE there are too few registers
  static constexpr int kAhead = kStages - (kDefer ? 2 : 1);  // tiles under way during another
  static_assert(!kDefer || kAhead >= 1);

 public:
  __device__ BackwardKey(const AttentionBackwardParams& b, const BackwardSpace& space,
                         std::uint8_t* smem)
      : b_(b),
        p_(b.forward),
        space_(space),
        smem_(smem),
        base_(smem_address(smem)),
        s_(sequence_of(p_, blockIdx.z)) {
    constexpr int kShares = kParts / kOutParts;
    kv_head_ = blockIdx.y;
    group_ = warpgroup();
    first_part_ = static_cast<int>(blockIdx.x) % kShares * kOutParts;
    first_key_ = static_cast<int>(blockIdx.x) / kShares * kGroups * 64;
    key_ = first_key_ + 64 * group_;
    mask_ = p_.key_mask == nullptr
                ? nullptr
                : p_.key_mask + static_cast<std::int64_t>(s_.batch) * p_.keys + s_.first_key;
  }

  __device__ void run() {
    if (first_key_ >= s_.keys) return;
    tiles_ = query_tiles(s_, first_key_, first_key_ + kGroups * 64 - 1, space_.first_query,
                         space_.first_query + space_.chunk);
    if (tiles_.end == tiles_.first && !space_.first_chunk && !space_.last_chunk) return;
    heads_ = p_.heads / p_.kv_heads;
#pragma unroll
    for (int d = 0; d < kOutParts; ++d) {
      zero(dk_[d]);
      zero(dv_[d]);
    }
    cope_ = {p_.scale, p_.cope.gates_see_bias,
             static_cast<std::uint32_t>(p_.cope.npos_max - 1) << kPositionBits};
    next_counting_ = counting_at(0);
    load_own(p_.k, base_);
    load_own(p_.v, base_ + Layout::kOwn);
    for (int i = 0; i < kAhead; ++i) fetch(i);  // the first wait is for the keys too
    const int count = heads_ * (tiles_.end - tiles_.first);
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
    store(b_.dk, space_.dk, dk_, p_.scale);
    store(b_.dv, space_.dv, dv_, 1.0f);
  }

 private:
  __device__ int tile_of(int i) const { return tiles_.first + i % (tiles_.end - tiles_.first); }
  __device__ int head_of(int i) const {
    return kv_head_ * heads_ + i / (tiles_.end - tiles_.first);
  }
  // Whether some query of the tile sees some key of the warpgroup.
  __device__ bool sees(int tile) const {
    const int last = min(tile * 64 + 63, s_.queries - 1);
    return s_.highest(last) >= key_ && s_.lowest(tile * 64) <= key_ + 63;
  }

  __device__ void load_own(const Tensor4& x, std::uint32_t to) {
    const RowsOf<T> rows = rows_of<T>(x, s_.batch, kv_head_, s_.first_key);
    for (int group = 0; group < kGroups; ++group) {
      for (int d = 0; d < kParts; ++d) {
        const RowsOf<T> part{rows.data + 64 * d, rows.stride};
        load_tile<64, 64, true, kThreads>(to + (d * kGroups + group) * kTileBytes, part,
                                          first_key_ + 64 * group, s_.keys,
                                          min(p_.head_dim - 64 * d, 64));
      }
    }
  }

  __device__ std::int64_t sequence_head(int head) const {
    return static_cast<std::int64_t>(s_.index) * p_.heads + head;
  }

  // Begins to copy the i-th tile of queries, of output gradients and of what goes with them.
  __device__ void fetch(int i) {
    if (i < heads_ * (tiles_.end - tiles_.first)) {
      const int tile = tile_of(i);
      const int head = head_of(i);
      const int stage = i % kStages;
      const std::uint32_t to = base_ + Layout::kStart + stage * Layout::kStage;
      load_tile<kDim, 64, false, kGroups * 128>(
          to, rows_of<T>(p_.q, s_.batch, head, s_.first_query), tile * 64, s_.queries, p_.head_dim);
      load_tile<kDim, 64, false, kGroups * 128>(
          to + Layout::kOperand, rows_of<T>(b_.grad_out, s_.batch, head, s_.first_query), tile * 64,
          s_.queries, p_.head_dim);
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
    const float* from = logits_of(tile, head);
    for (int i = threadIdx.x; i < 16 * stride; i += kThreads) {
      copy_16_async(to + 16 * i, from + 4 * i);
    }
  }
  __device__ const float* logits_of(int tile, int head) const {
    return space_.logits + (sequence_head(head) * space_.chunk + tile * 64 - space_.first_query) *
                               logit_stride(p_.cope.npos_max);
  }
  // The first tile of keys that the i-th tile of queries counts.
  __device__ int counting_at(int i) const {
    if ((kMods & kCope) == 0 || i >= heads_ * (tiles_.end - tiles_.first)) return 0;
    return space_.first_counting[sequence_head(head_of(i)) * (space_.chunk / 64) + tile_of(i) -
                                 space_.first_query / 64];
  }
  __device__ bool has_logits(int counting) const {
    return first_key_ / 64 + kGroups - 1 >= counting;
  }

  __device__ std::uint32_t stage_at(int i) const {
    return base_ + Layout::kStart + i % kStages * Layout::kStage;
  }

  // The i-th tile, and the products of the one before where they are pending; returns what is.
  __device__ int step(int i, int pending) {
    const int tile = tile_of(i);
    if (key_ >= s_.keys || !sees(tile)) {
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
  // Each warp has waited for its products before the first barrier, so nobody reads the old tiles.
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
    load_row_state(p_, space_.delta, s_, head_of(i), tile * 64, mine_, rows);
    float last[2] = {0.0f, 0.0f};
    if constexpr ((kMods & kCope) != 0) load_last(tile, head_of(i), last);
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
    const int head = head_of(i);
    RowState rows;
    load_row_state(p_, space_.delta, s_, head, tile * 64, mine_, rows);
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
    hide(s_, mask_, mine_, tile * 64, key_, x);
    const Keep keep = keep_of(p_, s_, head, tile * 64, key_, mine_);
    differentiate(i % kStages, rows, keep, carry, prefix, last, x, y);
    keep_weights(x, y);
  }

  __device__ void load_sums(int tile, int head, std::uint32_t (&carry)[2], float (&prefix)[2],
                            float (&last)[2]) {
    const int first = tile * 64 - space_.first_query;
    const std::int64_t at =
        (sequence_head(head) * space_.key_tiles + key_ / 64) * space_.chunk + first;
    load_last(tile, head, last);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const bool real = key_ / 64 >= counting_[0] && tile * 64 + mine_.row[h] < s_.queries;
      carry[h] = real ? space_.carries[at + mine_.row[h]] : cope_.last;
      prefix[h] = real ? space_.prefixes[at + mine_.row[h]] : 0.0f;
    }
  }
  __device__ void load_last(int tile, int head, float (&last)[2]) const {
    const float* logits = logits_of(tile, head) + p_.cope.npos_max - 1;
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
    softmax_backward<true>(rows, keep, kMods == kPlain ? p_.scale * kLog2e : kLog2e, x, y);
  }

  // Adds what chunks before have summed; the last chunk writes elements.
  __device__ void store(const Tensor4& to, float* sums, const Accum (&from)[kOutParts],
                        float scale) const {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int key = key_ + key_of_slot(mine_.row[h]);
      if (key >= s_.keys) continue;
      T* row = static_cast<T*>(to.data) + s_.batch * to.batch_stride + kv_head_ * to.head_stride +
               (s_.first_key + key) * to.token_stride;
      float* sum =
          sums + ((static_cast<std::int64_t>(s_.batch) * p_.kv_heads + kv_head_) * p_.keys +
                  s_.first_key + key) *
                     p_.head_dim;
#pragma unroll
      for (int i = 0; i < kOutParts * 8; ++i) {
        const int channel = 64 * first_part_ + 8 * i + 2 * mine_.column;
        if (channel >= p_.head_dim) continue;
        float2 value = {from[i / 8][i % 8][2 * h] * scale, from[i / 8][i % 8][2 * h + 1] * scale};
        auto* kept = reinterpret_cast<float2*>(sum + channel);
        if (!space_.first_chunk) {
          value.x += kept->x;
          value.y += kept->y;
        }
        if (space_.last_chunk) {
          store_pair(row + channel, value.x, value.y);
        } else {
          *kept = value;
        }
      }
    }
  }

  const AttentionBackwardParams& b_;
  const AttentionParams& p_;
  const BackwardSpace& space_;
  std::uint8_t* smem_;
  std::uint32_t base_;
  Sequence s_;
  ThreadRows mine_;
  int kv_head_;
  int heads_;  // that read this key head
  int group_;
  int first_part_;
  int first_key_;  // of the block
  int key_;        // first of the warpgroup
  const std::uint8_t* mask_;
  Range tiles_;
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
  const std::uint32_t skip = (1024 - smem_address(raw_smem) % 1024) % 1024;
  BackwardKey<T, kDim, kMods, kGroups, kStages, kOutParts>(b, space, raw_smem + skip).run();
}

}  // namespace posenc::cuda
