// Attention forward: a thread block owns 64 queries per warpgroup and loops over its keys from the diagonal to the first.
// The P V product of a tile overlaps the softmax of the next tile, so a tile stays in shared memory one step longer than
// its keys are needed.
#pragma once

#include "kernels/cuda/device/embedding.cuh"
#include "kernels/cuda/device/output.cuh"

namespace posenc::cuda {

// Shared memory of the forward, in bytes from a 1024-byte boundary.
template <int kDim, int kMods, int kGroups, int kStages>
struct ForwardLayout {
  static constexpr int kQueries = kDim / 64 * kGroups * kTileBytes;
  static constexpr int kOperand = kDim / 64 * kTileBytes;  // a tile of keys, or of values
  static constexpr int kStage = 2 * kOperand;
  static constexpr int kWindow = Window<kGroups * 64>::kBytes;
  static constexpr int kWindows = kQueries + kStages * kStage;
  static constexpr int kTables = kWindows + ((kMods & kToeplitz) != 0 ? kStages * kWindow : 0);
  static int bytes(int npos) {
    return 1024 + kTables + (npos > 0 ? kGroups * 64 * logit_stride(npos) * 4 : 0);
  }
};

template <class T, int kDim, int kMods, int kGroups, int kStages>
class Forward {
  using Layout = ForwardLayout<kDim, kMods, kGroups, kStages>;
  static constexpr bool kHasSoftcap = (kMods & kSoftcap) != 0;
  static constexpr int kParts = kDim / 64;
  static constexpr bool kDefer = kDim <= 128;                // values wait for the next scores
  static constexpr int kAhead = kStages - (kDefer ? 2 : 1);  // tiles under way during another
  static_assert(kAhead >= 1);

 public:
  __device__ Forward(const AttentionParams& p, std::uint8_t* smem)
      : p_(p), smem_(smem), base_(smem_address(smem)), s_(sequence_of(p, blockIdx.z)) {
    head_ = blockIdx.y;
    group_ = warpgroup();
    first_row_ = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kGroups * 64;
    query_ = first_row_ + 64 * group_;
  }

  __device__ void run() {
    if (first_row_ >= s_.queries) return;
    const int kv_head = head_ / (p_.heads / p_.kv_heads);
    k_ = rows_of<T>(p_.k, s_.batch, kv_head, s_.first_key);
    v_ = rows_of<T>(p_.v, s_.batch, kv_head, s_.first_key);
    tiles_ = key_tiles(s_, first_row_, first_row_ + kGroups * 64 - 1);
    mask_ = key_mask_of(p_, s_);
    start();
    const Range own = key_tiles(s_, query_, query_ + 63);
    const int count = tiles_.end - tiles_.first;
    const Range steps = own.end > own.first ? Range{tiles_.end - own.end, tiles_.end - own.first}
                                            : Range{count + 1, count + 1};
#pragma unroll 1
    for (int i = 0; i <= count; ++i) {
      if (i < count) {
        copies_wait<kAhead - 1>();
        publish_smem();
        __syncthreads();
        fetch(i + kAhead);
      }
      if (i >= steps.first && i < steps.end) step(i, i > steps.first);
      if (kDefer && i == steps.end) add_output(i - 1);
    }
    store_and_mark<T>(p_, s_, head_, query_, mine_, softmax_, factor(), out_);
  }

 private:
  __device__ void load_queries(const Tensor4& q) {
    load_tile<kDim, kGroups * 64, false, kGroups * 128>(
        base_, rows_of<T>(q, s_.batch, head_, s_.first_query), first_row_, s_.queries, p_.head_dim);
    copies_commit();
    copies_wait<0>();
    publish_smem();
    __syncthreads();
  }

  __device__ void start() {
    const bool plain = (kMods & kCope) != 0 && p_.cope.plain_q.data != nullptr;
    load_queries(plain ? p_.cope.plain_q : p_.q);
    if constexpr ((kMods & kCope) != 0) {
      auto* tables = reinterpret_cast<float*>(smem_ + Layout::kTables);
      fill_tables<T, kDim, kGroups>(CopeLogits{p_, head_}, base_, smem_ + Layout::kQueries, tables,
                                    group_);
      if (plain) load_queries(p_.q);
      const int stride = logit_stride(p_.cope.npos_max);
      cope_ = {p_.scale, p_.cope.gates_see_bias,
               static_cast<std::uint32_t>(p_.cope.npos_max - 1) << kPositionBits};
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        z_[h] = tables + (64 * group_ + mine_.row[h]) * stride;
        last_[h] = z_[h][p_.cope.npos_max - 1];
        carry_[h] = query_ + mine_.row[h] < s_.queries ? 0 : cope_.last;
      }
    }
#pragma unroll
    for (int d = 0; d < kParts; ++d) zero(out_[d]);
    for (int i = 0; i < kAhead; ++i) fetch(i);
  }

  // Starts to copy the i-th tile of keys and values.
  __device__ void fetch(int i) {
    const int tile = tiles_.end - 1 - i;
    if (tile >= tiles_.first) {
      const std::uint32_t to = base_ + Layout::kQueries + i % kStages * Layout::kStage;
      load_tile<kDim, 64, true, kGroups * 128>(to, k_, tile * 64, s_.keys, p_.head_dim);
      load_tile<kDim, 64, true, kGroups * 128>(to + Layout::kOperand, v_, tile * 64, s_.keys,
                                               p_.head_dim);
      if constexpr ((kMods & kToeplitz) != 0) {
        Window<kGroups * 64>::load(base_ + Layout::kWindows + i % kStages * Layout::kWindow,
                                   p_.toeplitz, head_, s_.place(first_row_), tile * 64, threadIdx.x,
                                   kGroups * 128);
      }
    }
    copies_commit();
  }

  __device__ const float* window(int stage) const {
    if constexpr ((kMods & kToeplitz) == 0) return nullptr;
    const auto* start =
        reinterpret_cast<const float*>(smem_ + Layout::kWindows + stage * Layout::kWindow);
    return Window<kGroups * 64>::at(start, 64 * group_ + mine_.row[0], mine_.column);
  }
  __device__ void modify(int stage, Accum& x) {
    if constexpr ((kMods & kCope) != 0) {
      if (!all_counted(cope_, carry_)) {
        add_cope<kMods>(cope_, window(stage), z_, mine_.column, x, carry_);
        return;
      }
    }
    modify_simply(stage, x);
  }
  // Where CoPE, if any, only adds constants.
  __device__ void modify_simply(int stage, Accum& x) {
    add_terms(stage, x);
    if constexpr (kHasSoftcap) Softcapped(p_, (kMods & kToeplitz) != 0).apply(x);
  }
  __device__ void add_terms(int stage, Accum& x) {
    if constexpr ((kMods & kCope) != 0) {
      add_constants<kMods>(cope_, window(stage), last_, x);
    } else if constexpr ((kMods & kToeplitz) != 0) {
      add_biases(window(stage), p_.scale, x);
    }
  }

  __device__ std::uint32_t stage_at(int i) const {
    return base_ + Layout::kQueries + i % kStages * Layout::kStage;
  }

  // The i-th tile, and the output of the previous one if it is `pending`.
  __device__ void step(int i, bool pending) {
    const int tile = tiles_.end - 1 - i;
    if constexpr (!kDefer) {
      add_scores(i, tile);
      add_output(i);
    } else if (pending && p_.dropout_threshold == 0 && is_counted() &&
               sees_all(s_, mask_, query_, tile * 64)) {
      overlap(i);
    } else {
      if (pending) add_output(i - 1);
      add_scores(i, tile);
    }
  }
  // Whether CoPE, if any, only adds constants from here on, for the whole warpgroup.
  __device__ bool is_counted() {
    if constexpr ((kMods & kCope) == 0) return true;
    if (!counted_) counted_ = all_counted_in_group(cope_, carry_, group_);
    return counted_;
  }

  // No branches here: they would make the products wait for each other.
  __device__ void overlap(int i) {
    Accum x;
    zero(x);
    multiply_keys(stage_at(i), x);
    multiply_values(stage_at(i - 1) + Layout::kOperand);
    mma_wait<1>();
    pin(x);
    modify_simply(i % kStages, x);
    float shrink[2];
    softmax_.exponentiate(x, factor(), shrink);
    pin(x);  // the weights are made before the wait
    mma_wait<0>();
#pragma unroll
    for (int d = 0; d < kParts; ++d) pin(out_[d]);
    keep(x, shrink);
  }

  __device__ void add_scores(int i, int tile) {
    Accum x;
    zero(x);
    multiply_keys(stage_at(i), x);
    mma_wait<0>();
    pin(x);
    const Seen seen = seen_of(s_, mask_, mine_, query_, tile * 64);
    replace_hidden(seen, -INFINITY, x);
    modify(i % kStages, x);
    if constexpr (kMods != kPlain) replace_hidden(seen, -INFINITY, x);  // biases may be NaN
    float shrink[2];
    softmax_.exponentiate(x, factor(), shrink);
    if (p_.dropout_threshold != 0) drop_weights(p_, s_, head_, query_, tile * 64, mine_, x);
    keep(x, shrink);
  }
  __device__ void add_output(int i) {
    multiply_values(stage_at(i) + Layout::kOperand);
    mma_wait<0>();
#pragma unroll
    for (int d = 0; d < kParts; ++d) pin(out_[d]);
  }
  __device__ void keep(const Accum& x, const float (&shrink)[2]) {
    to_fragment<T>(x, weights_);
#pragma unroll
    for (int i = 0; i < kParts * 32; ++i) out_[i / 32][i / 4 % 8][i % 4] *= shrink[i / 2 % 2];
  }

  // Queries are read from shared memory too: as fragments in registers, ptxas 13.0 has been seen to
  // give their registers away inside the loop.
  __device__ void multiply_keys(std::uint32_t keys, Accum& x) {
    mma_begin();
#pragma unroll
    for (int d = 0; d < kParts; ++d) {
      multiply<T, false, false>(x, base_ + (d * kGroups + group_) * kTileBytes,
                                keys + d * kTileBytes);
    }
    mma_commit();
  }
  __device__ void multiply_values(std::uint32_t values) {
    mma_begin();
    multiply_rows<T, true>(out_, weights_, values);
    mma_commit();
  }

  // What turns a score into an exponent of two.
  __device__ float factor() const {
    if constexpr (kHasSoftcap) return p_.softcap * kLog2e;
    return kMods == kPlain ? p_.scale * kLog2e : kLog2e;
  }

  const AttentionParams& p_;
  std::uint8_t* smem_;
  std::uint32_t base_;
  Sequence s_;
  ThreadRows mine_;
  int head_;
  int group_;
  int first_row_;  // of the block
  int query_;      // first of the warpgroup
  RowsOf<T> k_;
  RowsOf<T> v_;
  Range tiles_;
  const std::uint8_t* mask_;
  CopeScores cope_;
  const float* z_[2];
  float last_[2];
  std::uint32_t carry_[2];
  bool counted_ = false;  // every row of the warpgroup
  Fragment weights_;
  Accum out_[kParts];
  OnlineSoftmax softmax_;
};

template <class T, int kDim, int kMods, int kGroups, int kStages, int kBlocks>
__global__ void __launch_bounds__(kGroups * 128, kBlocks)
    attention_forward_kernel(const __grid_constant__ AttentionParams p) {
  extern __shared__ std::uint8_t raw_smem[];
  Forward<T, kDim, kMods, kGroups, kStages>(p, aligned_smem(raw_smem)).run();
}

}  // namespace posenc::cuda
