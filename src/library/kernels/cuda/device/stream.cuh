// The pipeline of the warp-specialised forward: one producer warpgroup and consumer warpgroups with 64 queries each, on
// tiles of 128 keys. Every stage has its own barriers, so the products of one warpgroup overlap the exponentials of
// another.
//
// Keys are in sequence order or (CoPE, stick-breaking) in two halves of 64 in the order of key_of_slot.
#pragma once

#include "kernels/cuda/device/barriers.cuh"
#include "kernels/cuda/device/embedding.cuh"
#include "kernels/cuda/device/fire_stream.cuh"
#include "kernels/cuda/device/pair_window.cuh"
#include "kernels/cuda/device/tokens.cuh"

namespace posenc::cuda {

template <int kDim>
struct StreamSizes {
  static constexpr int kGroups = kDim == 64 ? 3 : 2;  // that compute
  static constexpr int kStages = kDim == 64 ? 3 : 2;
  static constexpr int kThreads = (kGroups + 1) * 128;
  static constexpr int kRows = kGroups * 64;
};

inline constexpr int kStreamKeys = 128;  // of a tile

template <int kDim, int kMods>
struct StreamLayout {
  using Of = StreamSizes<kDim>;
  using Pairs = PairWindow<Of::kRows, kStreamKeys>;
  static constexpr int kQueries = kDim / 64 * Of::kGroups * kTileBytes;
  static constexpr int kPart = kStreamKeys * 128;  // 64 channels of a tile
  static constexpr int kOperand = kDim / 64 * kPart;
  static constexpr int kStage = 2 * kOperand;
  static constexpr int kWindows = kQueries + Of::kStages * kStage;
  // What accumulators of a tile start from.
  static constexpr int kSpans = kWindows + Of::kStages * Pairs::kBytes;
  static constexpr int kFireTable = kSpans + Of::kStages * 128;
  static constexpr int kBarriers = (kMods & kToeplitz) != 0 ? kSpans
                                   : (kMods & kFire) != 0   ? kFireTable + kFireTableBytes
                                   : (kMods & kTokens) != 0
                                       ? kWindows + Of::kStages * TokenParts::bytes(kStreamKeys)
                                       : kWindows;
  static constexpr int kTables = kBarriers + 128;
  static_assert(4 * Of::kStages * 8 <= 128);
  static int bytes(int npos) {
    return 1024 + kTables + (npos > 0 ? Of::kRows * logit_stride(npos) * 4 : 0);
  }
};

#if POSENC_WGMMA

enum StreamBarrier : int { kFullKeys = 0, kFullValues = 1, kFreeKeys = 2, kFreeValues = 3 };

// The computing warpgroups' turns, once per tile and in their order, if they take any.
template <int kGroups, bool kTaken>
struct Turns {
  static constexpr int kBarrier = 8;  // the first of theirs among the block's named barriers

  __device__ void take(int i) const {
    if (!kTaken || (group == 0 && i == 0)) return;
    asm volatile("bar.sync %0, 256;" ::"r"(kBarrier + group) : "memory");
  }
  __device__ void give(int i) const {
    if (!kTaken || (group == kGroups - 1 && i == tiles - 1)) return;
    const int next = group == kGroups - 1 ? 0 : group + 1;
    asm volatile("bar.arrive %0, 256;" ::"r"(kBarrier + next) : "memory");
  }

  int group;
  int tiles;
};

// What both kinds of warpgroups know.
template <class T, int kDim, int kMods>
struct StreamBlock {
  using Of = StreamSizes<kDim>;
  using Layout = StreamLayout<kDim, kMods>;

  __device__ StreamBlock(const AttentionParams& p, std::uint8_t* memory)
      : params(p), smem(memory), base(smem_address(memory)), s(sequence_of(p, blockIdx.z)) {
    head = blockIdx.y;
    first_row = static_cast<int>(gridDim.x - 1 - blockIdx.x) * Of::kRows;
    tiles = tiles_of(first_row, first_row + Of::kRows - 1);
  }
  __device__ Range tiles_of(int first, int last) const {
    last = min(last, s.queries - 1);
    int low = s.lowest(first);
    if constexpr ((kMods & kTokens) != 0) low = max(low, first_kept_key(params, s, head, first));
    const int high = last < first ? -1 : s.highest(last);
    if (high < low) return {0, 0};
    return {low / kStreamKeys, high / kStreamKeys + 1};
  }
  // The i-th tile, counted from the last one.
  __device__ int tile(int i) const { return tiles.end - 1 - i; }
  __device__ std::uint32_t keys_at(int i) const {
    return base + Layout::kQueries + i % Of::kStages * Layout::kStage;
  }
  __device__ std::uint32_t values_at(int i) const { return keys_at(i) + Layout::kOperand; }
  __device__ float* window_at(int i) const {
    return reinterpret_cast<float*>(smem + Layout::kWindows +
                                    i % Of::kStages * Layout::Pairs::kBytes);
  }
  // Of a tile, by warp.
  __device__ FireSpan* spans_at(int i) const {
    return reinterpret_cast<FireSpan*>(smem + Layout::kSpans + i % Of::kStages * 128);
  }
  __device__ FireEntry* fire_table() const {
    return reinterpret_cast<FireEntry*>(smem + Layout::kFireTable);
  }
  __device__ TokenParts token_parts(int i) const {
    return {base + Layout::kWindows + i % Of::kStages * TokenParts::bytes(kStreamKeys)};
  }
  __device__ float* tables() const { return reinterpret_cast<float*>(smem + Layout::kTables); }
  __device__ std::uint32_t barrier(int kind, int i) const {
    return base + Layout::kBarriers + (kind * Of::kStages + i % Of::kStages) * 8;
  }
  __device__ void wait(int kind, int i) const {
    barrier_wait(barrier(kind, i), i / Of::kStages & 1);
  }
  template <int kThreads>
  __device__ void load_queries(const Tensor4& q, int thread) const {
    load_tile<kDim, Of::kRows, false, kThreads>(base, rows_of<T>(q, s.batch, head, s.first_query),
                                                first_row, s.queries, params.head_dim, thread);
  }
  // By all threads, before they part.
  __device__ void start() const {
    if (threadIdx.x == 0) {
      for (int i = 0; i < Of::kStages; ++i) {
        barrier_init(barrier(kFullKeys, i), 128);
        barrier_init(barrier(kFullValues, i), 128);
        barrier_init(barrier(kFreeKeys, i), 4 * Of::kGroups);
        barrier_init(barrier(kFreeValues, i), 4 * Of::kGroups);
      }
    }
    if constexpr ((kMods & kFire) != 0) {
      load_fire_table(params, head, static_cast<int>(threadIdx.x), fire_table());
    }
    if constexpr ((kMods & kCope) != 0) {
      const bool plain = params.cope.plain_q.data != nullptr;
      settle_queries(plain ? params.cope.plain_q : params.q);
      fill_tables<T, kDim, Of::kGroups, Of::kThreads>(
          CopeLogits{params, head}, base, smem + Layout::kQueries, tables(), warpgroup() - 1);
      if (plain) settle_queries(params.q);
    } else {
      __syncthreads();
    }
  }
  __device__ void settle_queries(const Tensor4& q) const {
    load_queries<Of::kThreads>(q, threadIdx.x);
    copies_commit();
    copies_wait<0>();
    publish_smem();
    __syncthreads();
  }

  const AttentionParams& params;
  std::uint8_t* smem;
  std::uint32_t base;
  Sequence s;
  int head;
  int first_row;
  Range tiles;
};

// The producer warpgroup: loads keys one tile ahead of values. A copy is announced two groups of copies later,
// when it has arrived.
template <class T, int kDim, int kMods>
class StreamCopies {
  using Block = StreamBlock<T, kDim, kMods>;
  using Of = StreamSizes<kDim>;
  using Layout = StreamLayout<kDim, kMods>;
  static constexpr int kLag = 2;

 public:
  __device__ explicit StreamCopies(const Block& block) : b_(block), thread_(threadIdx.x % 128) {
    const AttentionParams& p = b_.params;
    const int kv_head = b_.head / (p.heads / p.kv_heads);
    k_ = rows_of<T>(p.k, b_.s.batch, kv_head, b_.s.first_key);
    v_ = rows_of<T>(p.v, b_.s.batch, kv_head, b_.s.first_key);
    if constexpr ((kMods & kFire) != 0) spans_.read_rows(p, b_.s, b_.first_row + 16 * thread_, 16);
  }

  __device__ void run() {
    const int count = b_.tiles.end - b_.tiles.first;
    if (count == 0) return;
    if constexpr ((kMods & kCope) == 0) b_.template load_queries<128>(b_.params.q, thread_);
    const int groups = 2 * count;
#pragma unroll 1
    for (int n = 0; n < groups + kLag; ++n) {
      if (n < groups) copy(n, count);
      copies_commit();
      if (n < kLag) continue;
      copies_wait<kLag>();
      publish_smem();
      barrier_arrive(barrier_of(n - kLag, count));
    }
  }

 private:
  // The order of copies: keys 0, keys 1, values 0, keys 2, values 1, ..., the last values.
  __device__ static bool is_keys(int n, int count) {
    return n == 0 || (n % 2 == 1 && n != 2 * count - 1);
  }
  __device__ static int tile_of(int n, int count) {
    return is_keys(n, count) ? (n + 1) / 2 : (n == 2 * count - 1 ? count - 1 : n / 2 - 1);
  }
  __device__ std::uint32_t barrier_of(int n, int count) const {
    return b_.barrier(is_keys(n, count) ? kFullKeys : kFullValues, tile_of(n, count));
  }

  __device__ void copy(int n, int count) {
    const bool keys = is_keys(n, count);
    const int i = tile_of(n, count);
    if (i >= Of::kStages) b_.wait(keys ? kFreeKeys : kFreeValues, i - Of::kStages);
    const int first = b_.tile(i) * kStreamKeys;
    WindowCopy<typename Layout::Pairs> window;
    constexpr bool kHasFire = (kMods & kFire) != 0;
    const bool has_window = (kHasFire || (kMods & kToeplitz) != 0) && keys;
    const AttentionParams& p = b_.params;
    if (has_window) {
      window.read(kHasFire ? psi_table(p.fire, false) : p.toeplitz, b_.head,
                  b_.s.place(b_.first_row), first, thread_);
    }
    const bool has_span = kHasFire && keys && thread_ < 4 * Of::kGroups;
    if (has_span) spans_.read_keys(p.fire, first, kStreamKeys);
    const bool has_tokens = (kMods & kTokens) != 0 && keys;
    static_assert(kStreamKeys == 128, "a thread has one key");
    float part = 0.0f;
    if (has_tokens) {
      const TokenRow row(p, b_.s, b_.head);
      part = row.key_part(first + thread_, row.query(b_.first_row));
    }
    // Not a reference to one of two: that would take both to memory.
    const RowsOf<T> from{keys ? k_.data : v_.data, keys ? k_.stride : v_.stride};
    copy_rows(keys ? b_.keys_at(i) : b_.values_at(i), from, first);
    if (has_window) window.store(b_.window_at(i), kHasFire ? 1.0f : p.scale, thread_);
    if (has_span) b_.spans_at(i)[thread_] = spans_.find(b_.fire_table(), p.fire.segments);
    if (has_tokens) b_.token_parts(i).store(thread_, part / p.scale);
  }
  __device__ void copy_rows(std::uint32_t to, const RowsOf<T>& from, int first) const {
    if constexpr ((kMods & kScans) == 0) {
      load_tile<kDim, kStreamKeys, false, 128>(to, from, first, b_.s.keys, b_.params.head_dim,
                                               thread_);
    } else {
#pragma unroll
      for (int n = 0; n < kDim / 64 * 2; ++n) {
        const int d = n / 2;
        load_tile<64, 64, true, 128>(to + d * Layout::kPart + n % 2 * kTileBytes,
                                     RowsOf<T>{from.data + 64 * d, from.stride}, first + n % 2 * 64,
                                     b_.s.keys, min(b_.params.head_dim - 64 * d, 64), thread_);
      }
    }
  }

  Block b_;
  int thread_;
  RowsOf<T> k_;
  RowsOf<T> v_;
  SpanFinder spans_;
};

#endif

}  // namespace posenc::cuda
