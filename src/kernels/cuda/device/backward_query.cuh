// Attention backward for the queries: a block of threads owns 64 queries per warpgroup and walks over
// its keys, from the first up. CoPE walks down before, to find the sum of gates with which each tile
// begins; both sums are kept for the keys' kernel. Gradients of parameters are added up here too.
#pragma once

#include "kernels/cuda/device/backward_space.cuh"
#include "kernels/cuda/device/diagonals.cuh"
#include "kernels/cuda/device/gradients.cuh"
#include "kernels/cuda/device/softmax.cuh"
#include "kernels/cuda/device/table_gradients.cuh"

namespace posenc::cuda {

template <int kDim, int kMods, int kGroups, int kStages>
struct QueryLayout {
  static constexpr int kRows = kDim / 64 * kGroups * kTileBytes;  // queries, or output gradients
  static constexpr int kOperand = kDim / 64 * kTileBytes;
  static constexpr int kStage = 2 * kOperand;
  static constexpr int kStart = 2 * kRows;
  static constexpr int kWindow = Window<kGroups * 64>::kBytes;
  static constexpr int kWindows = kStart + kStages * kStage;
  static constexpr bool kHasToeplitz = (kMods & kToeplitz) != 0;
  static constexpr int kStrips = kWindows + (kHasToeplitz ? kStages * kWindow : 0);
  static constexpr int kTables = kStrips + (kHasToeplitz ? kGroups * kStripsBytes : 0);
  static int bytes(int npos) {
    return 1024 + kTables + (npos > 0 ? 2 * kGroups * 64 * logit_stride(npos) * 4 : 0);
  }
};

template <class T, int kDim, int kMods, int kGroups, int kStages>
class BackwardQuery {
  using Layout = QueryLayout<kDim, kMods, kGroups, kStages>;
  static constexpr int kParts = kDim / 64;
  static constexpr int kThreads = kGroups * 128;
  // The queries' product of a tile runs while the next tile's scores are differentiated, so that its
  // keys stay one step longer. CoPE allows that where it only adds constants.
  static constexpr bool kDefer = kStages > 2;
  static constexpr bool kWide = (kMods & kCope) == 0;  // beside CoPE there are too few registers
  static constexpr int kAhead = kStages - (kDefer ? 2 : 1);  // tiles under way during another
  static_assert(!kDefer || kAhead >= 1);
  // The scratch of the tables' products must fit into the stages.
  static_assert(kStages * Layout::kStage >= kGroups * 2 * kTileBytes);

 public:
  __device__ BackwardQuery(const AttentionBackwardParams& b, const BackwardSpace& space,
                           std::uint8_t* smem)
      : b_(b),
        p_(b.forward),
        space_(space),
        smem_(smem),
        base_(smem_address(smem)),
        s_(sequence_of(p_, blockIdx.z)) {
    head_ = blockIdx.y;
    group_ = warpgroup();
    const int kv_head = head_ / (p_.heads / p_.kv_heads);
    k_ = rows_of<T>(p_.k, s_.batch, kv_head, s_.first_key);
    v_ = rows_of<T>(p_.v, s_.batch, kv_head, s_.first_key);
    mask_ = key_mask_of(p_, s_);
    sequence_head_ = static_cast<std::int64_t>(s_.index) * p_.heads + head_;
    if constexpr ((kMods & kToeplitz) != 0) {
      auto* strips = reinterpret_cast<float*>(smem_ + Layout::kStrips);
      for (int i = threadIdx.x; i < kGroups * kStripsBytes / 4; i += kThreads) strips[i] = 0.0f;
    }
  }

  __device__ void run() {
    const int rows = min(space_.chunk, s_.queries - space_.first_query);
    const int blocks = (rows + kGroups * 64 - 1) / (kGroups * 64);
    for_each_block(blocks, [&](int block) { run_block(block); });
  }

 private:
  __device__ void run_block(int block) {
    first_row_ = space_.first_query + block * kGroups * 64;
    query_ = first_row_ + 64 * group_;
    tiles_ = key_tiles(s_, first_row_, first_row_ + kThreads / 2 - 1);
    own_ = key_tiles(s_, query_, query_ + 63);
    __syncthreads();
    start();
    if constexpr ((kMods & kCope) != 0) find_carries();
    walk_up();
    if constexpr ((kMods & kCope) != 0) finish_tables();
    store();
  }

  __device__ void load_rows(const Tensor4& x, std::uint32_t to) {
    load_tile<kDim, kGroups * 64, false, kGroups * 128>(
        to, rows_of<T>(x, s_.batch, head_, s_.first_query), first_row_, s_.queries, p_.head_dim);
  }
  __device__ void settle() {
    copies_commit();
    copies_wait<0>();
    publish_smem();
    __syncthreads();
  }
  __device__ bool has_plain() const { return p_.cope.plain_q.data != nullptr; }

  __device__ void start() {
    load_row_state(p_, space_.delta, s_, head_, query_, mine_, rows_);
    load_rows(b_.grad_out, base_ + Layout::kRows);
    load_rows((kMods & kCope) != 0 && has_plain() ? p_.cope.plain_q : p_.q, base_);
    settle();
#pragma unroll
    for (int d = 0; d < kParts; ++d) zero(dq_[d]);
    if constexpr ((kMods & kCope) != 0) start_cope();
  }

  __device__ void start_cope() {
    const int stride = logit_stride(p_.cope.npos_max);
    auto* tables = reinterpret_cast<float*>(smem_ + Layout::kTables);
    fill_tables<T, kDim, kGroups>(p_, head_, base_, smem_ + Layout::kStart, tables, group_);
    if (has_plain()) {
      load_rows(p_.q, base_);
      settle();
    }
    const int count = kGroups * 64 * stride;
    float* dtables = tables + count;
    const int first = first_row_ - space_.first_query;
    float* kept = space_.logits + (sequence_head_ * space_.chunk + first) * stride;
    const int kept_count = min(kGroups * 64, space_.chunk - first) * stride;
    for (int i = threadIdx.x; i < count; i += kThreads) {
      dtables[i] = 0.0f;
      if (i < kept_count) kept[i] = tables[i];
    }
    __syncthreads();
    cope_ = {p_.scale, p_.cope.gates_see_bias,
             static_cast<std::uint32_t>(p_.cope.npos_max - 1) << kPositionBits};
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int at = (64 * group_ + mine_.row[h]) * stride;
      z_[h] = tables + at;
      dz_[h] = dtables + at;
      last_[h] = z_[h][p_.cope.npos_max - 1];
      prefix_[h] = tail_[h] = 0.0f;
    }
  }

  // Begins to copy the i-th tile of a walk.
  __device__ void fetch(int i, int tile, bool values) {
    const int stage = i % kStages;
    if (tile >= tiles_.first && tile < tiles_.end) {
      const std::uint32_t to = base_ + Layout::kStart + stage * Layout::kStage;
      load_tile<kDim, 64, true, kGroups * 128>(to, k_, tile * 64, s_.keys, p_.head_dim);
      if (values) {
        load_tile<kDim, 64, true, kGroups * 128>(to + Layout::kOperand, v_, tile * 64, s_.keys,
                                                 p_.head_dim);
      }
      if constexpr ((kMods & kToeplitz) != 0) {
        Window<kGroups * 64>::load(base_ + Layout::kWindows + stage * Layout::kWindow, p_.toeplitz,
                                   head_, s_.place(first_row_), tile * 64, threadIdx.x, kThreads);
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

  __device__ void raw_scores(std::uint32_t keys, Accum& x) {
#pragma unroll
    for (int d = 0; d < kParts; ++d) {
      multiply<T, false, false>(x, base_ + (d * kGroups + group_) * kTileBytes,
                                keys + d * kTileBytes);
    }
  }

  __device__ std::int64_t sums_at(int tile, int h) const {
    return (sequence_head_ * space_.key_tiles + tile) * space_.chunk + query_ + mine_.row[h] -
           space_.first_query;
  }
  __device__ bool in_chunk(int h) const {
    return query_ + mine_.row[h] < min(s_.queries, space_.first_query + space_.chunk);
  }

  __device__ void find_carries() {
    std::uint32_t carry[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) carry[h] = in_chunk(h) ? 0 : cope_.last;
    for (int i = 0; i < kAhead; ++i) fetch(i, tiles_.end - 1 - i, false);
    counting_ = tiles_.first;
    const int count = tiles_.end - tiles_.first;
#pragma unroll 1
    for (int i = 0; i < count; ++i) {
      const int tile = tiles_.end - 1 - i;
      if constexpr (kAhead == 0) {
        __syncthreads();
        fetch(i, tile, false);
      }
      copies_wait<(kAhead > 0 ? kAhead - 1 : 0)>();
      publish_smem();
      if (__syncthreads_and(carry[0] >= cope_.last && carry[1] >= cope_.last)) {
        counting_ = tile + 1;
        break;
      }
      if constexpr (kAhead > 0) fetch(i + kAhead, tile - kAhead, false);
      if (tile < own_.first || tile >= own_.end) continue;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        if (mine_.column == 0 && in_chunk(h)) space_.carries[sums_at(tile, h)] = carry[h];
      }
      if (all_counted_in_group(cope_, carry, group_)) continue;
      Accum x;
      zero(x);
      mma_begin();
      raw_scores(base_ + Layout::kStart + i % kStages * Layout::kStage, x);
      mma_commit();
      mma_wait();
      pin(x);
      hide(s_, mask_, mine_, query_, tile * 64, x);
      count_gates(cope_, WindowTerms<kMods>{cope_, window(i % kStages)}, x, carry);
    }
    copies_wait<0>();
    if (threadIdx.x % 128 == 0 && query_ - space_.first_query < space_.chunk) {
      space_.first_counting[sequence_head_ * (space_.chunk / 64) +
                            (query_ - space_.first_query) / 64] = counting_;
    }
    __syncthreads();
  }
  __device__ void walk_up() {
    for (int i = 0; i < kAhead; ++i) fetch(i, tiles_.first + i, true);
    const int count = tiles_.end - tiles_.first;
    const Range steps = own_.end > own_.first
                            ? Range{own_.first - tiles_.first, own_.end - tiles_.first}
                            : Range{count + 1, count + 1};
#pragma unroll 1
    for (int i = 0; i <= count; ++i) {
      if (i < count) {
        if constexpr (kAhead == 0) {
          __syncthreads();
          fetch(i, tiles_.first + i, true);
        }
        copies_wait<(kAhead > 0 ? kAhead - 1 : 0)>();
        publish_smem();
        __syncthreads();
        if constexpr (kAhead > 0) fetch(i + kAhead, tiles_.first + i + kAhead, true);
      }
      if (i >= steps.first && i < steps.end) step(i, i > steps.first);
      if (kDefer && i == steps.end) add_queries(i - 1);
    }
    copies_wait<0>();
    __syncthreads();
  }

  __device__ std::uint32_t stage_at(int i) const {
    return base_ + Layout::kStart + i % kStages * Layout::kStage;
  }

  // The i-th tile, and the queries' product of the one before where that is `pending`.
  __device__ void step(int i, bool pending) {
    const int tile = tiles_.first + i;
    if constexpr (!kDefer) {
      visit(i, tile);
      add_queries(i);
    } else if (pending && p_.dropout_threshold == 0 && sees_all(s_, mask_, query_, tile * 64) &&
               ((kMods & kCope) == 0 || tile < counting_)) {
      overlap(i);
    } else {
      if (pending) add_queries(i - 1);
      visit(i, tile);
    }
  }

  __device__ void multiply_tile(std::uint32_t keys, Accum& x, Accum& y) {
    zero(x);
    zero(y);
    mma_begin();
    raw_scores(keys, x);
#pragma unroll
    for (int d = 0; d < kParts; ++d) {
      multiply<T, false, false>(y, base_ + Layout::kRows + (d * kGroups + group_) * kTileBytes,
                                keys + Layout::kOperand + d * kTileBytes);
    }
    mma_commit();
  }
  __device__ void multiply_keys(std::uint32_t keys) {
    mma_begin();
    multiply_rows<T, kWide>(dq_, ds_, keys);
    mma_commit();
  }
  __device__ void add_queries(int i) {
    multiply_keys(stage_at(i));
    mma_wait<0>();
#pragma unroll
    for (int d = 0; d < kParts; ++d) pin(dq_[d]);
  }

  // No branches here: they would make the products wait for each other.
  __device__ void overlap(int i) {
    Accum x;
    Accum y;
    multiply_tile(stage_at(i), x, y);
    multiply_keys(stage_at(i - 1));
    mma_wait<1>();
    pin(x);
    pin(y);
    const Keep all{{0xffffu, 0xffffu}, 1.0f};
    differentiate_simply(i % kStages, all, x, y);
    pin(y);
    mma_wait<0>();
#pragma unroll
    for (int d = 0; d < kParts; ++d) pin(dq_[d]);
    to_fragment<T>(y, ds_);
    add_diagonals(tiles_.first + i, x);
  }

  __device__ void visit(int i, int tile) {
    std::uint32_t carry[2] = {0, 0};
    if constexpr ((kMods & kCope) != 0) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        carry[h] = cope_.last;
        if (tile >= counting_ && in_chunk(h)) {
          carry[h] = space_.carries[sums_at(tile, h)];
          if (mine_.column == 0) space_.prefixes[sums_at(tile, h)] = prefix_[h];
        }
      }
    }
    Accum x;
    Accum y;
    multiply_tile(stage_at(i), x, y);
    mma_wait<0>();
    pin(x);
    pin(y);
    hide(s_, mask_, mine_, query_, tile * 64, x);
    const Keep keep = keep_of(p_, s_, head_, query_, tile * 64, mine_);
    differentiate(i % kStages, keep, carry, x, y);
    add_diagonals(tile, x);
    to_fragment<T>(y, ds_);
  }

  __device__ void differentiate(int stage, const Keep& keep, const std::uint32_t (&carry)[2],
                                Accum& x, Accum& y) {
    if constexpr ((kMods & kCope) != 0) {
      if (!all_counted(cope_, carry)) {
        cope_backward<kMods, false>(cope_, window(stage), z_, dz_, mine_.column, rows_, keep, carry,
                                    prefix_, x, y);
        return;
      }
    }
    differentiate_simply(stage, keep, x, y);
  }
  // Where CoPE, if any, only adds constants.
  __device__ void differentiate_simply(int stage, const Keep& keep, Accum& x, Accum& y) {
    const float* w = window(stage);
    if constexpr ((kMods & kCope) != 0) {
      add_constants<kMods>(cope_, w, last_, x);
    } else if constexpr ((kMods & kToeplitz) != 0) {
      add_biases(w, p_.scale, x);
    }
    softmax_backward<false>(rows_, keep, kMods == kPlain ? p_.scale * kLog2e : kLog2e, x, y);
    if constexpr ((kMods & kCope) != 0) {
#pragma unroll
      for (int i = 0; i < 32; ++i) tail_[i / 2 % 2] += y[i / 4][i % 4];
    }
  }

  __device__ void add_diagonals(int tile, const Accum& x) {
    if ((kMods & kToeplitz) == 0 || b_.dtoeplitz == nullptr) return;
    Diagonals diagonals(reinterpret_cast<float*>(smem_ + Layout::kStrips + group_ * kStripsBytes),
                        mine_);
    const std::int64_t partial =
        ((static_cast<std::int64_t>(s_.index) * gridDim.x + blockIdx.x) * kGroups + group_) *
            p_.heads +
        head_;
    float* table = space_.dtoeplitz + partial * p_.toeplitz.span + p_.toeplitz.zero;
    diagonals.add(x, group_, tile % 2, table, -p_.toeplitz.zero,
                  p_.toeplitz.span - p_.toeplitz.zero, s_.place(query_) - tile * 64);
  }

  // From the tables' gradient to that of the plain queries and of the embedding.
  __device__ void finish_tables() {
    const TableGradient<T, kDim, kGroups> tables(p_, base_, smem_ + Layout::kStart, group_, mine_,
                                                 dz_);
    tables.settle(tail_);
    if (p_.cope.slopes != nullptr) {
      if (b_.dpos_emb != nullptr) tables.add_slopes(partial(4));
      return;
    }
    if (has_plain()) {
      store_queries(b_.dq, p_.scale);  // what is added from here on is of the plain queries
#pragma unroll
      for (int d = 0; d < kParts; ++d) zero(dq_[d]);
      load_rows(p_.cope.plain_q, base_);
      settle();
    } else {
#pragma unroll
      for (int d = 0; d < kParts; ++d) {
#pragma unroll
        for (int i = 0; i < 32; ++i) dq_[d][i / 4][i % 4] *= p_.scale;
      }
    }
    for (int first = 0; first < p_.cope.npos_max; first += 64) {
      tables.add_to_queries(first, dq_);
      if (b_.dpos_emb != nullptr) {
        tables.add_to_embedding(first, partial(p_.head_dim * p_.cope.npos_max));
      }
    }
  }
  // The warpgroup's own partial sum of the embedding's gradient.
  __device__ float* partial(int entries) const {
    return space_.dembedding +
           ((sequence_head_ * gridDim.x + blockIdx.x) * kGroups + group_) * entries;
  }

  __device__ void store() {
    const bool from_tables = (kMods & kCope) != 0 && p_.cope.slopes == nullptr;
    if (from_tables && has_plain()) {
      store_queries(b_.dplain_q, 1.0f);
    } else {
      store_queries(b_.dq, from_tables ? 1.0f : p_.scale);
    }
  }
  __device__ void store_queries(const Tensor4& to, float scale) const {
    store_rows<T>(to, p_, s_, head_, query_, mine_, dq_, {scale, scale});
  }

  const AttentionBackwardParams& b_;
  const AttentionParams& p_;
  const BackwardSpace& space_;
  std::uint8_t* smem_;
  std::uint32_t base_;
  Sequence s_;
  ThreadRows mine_;
  int head_;
  int group_;
  std::int64_t sequence_head_;
  int first_row_;
  int query_;
  RowsOf<T> k_;
  RowsOf<T> v_;
  const std::uint8_t* mask_;
  Range tiles_;
  Range own_;
  int counting_;  // the first tile that is not saturated
  RowState rows_;
  CopeScores cope_;
  const float* z_[2];
  float* dz_[2];
  float last_[2];
  float prefix_[2];
  float tail_[2];  // what saturated keys ask of the last entry
  Fragment ds_;
  Accum dq_[kParts];
};

template <class T, int kDim, int kMods, int kGroups, int kStages, int kBlocks>
__global__ void __launch_bounds__(kGroups * 128, kBlocks)
    attention_backward_query_kernel(const __grid_constant__ AttentionBackwardParams b,
                                    const __grid_constant__ BackwardSpace space) {
  extern __shared__ std::uint8_t raw_smem[];
  BackwardQuery<T, kDim, kMods, kGroups, kStages>(b, space, aligned_smem(raw_smem)).run();
}

}  // namespace posenc::cuda
