// Loads tiles of keys and values for the backward of queries: by the computing threads themselves, or (kStream, sm_90a) by
// a producer warpgroup with barriers per stage, so that the products of one consumer warpgroup overlap the exponentials
// of another.
#pragma once

#include "kernels/cuda/device/backward_space.cuh"
#include "kernels/cuda/device/barriers.cuh"
#include "kernels/cuda/device/diagonals.cuh"
#include "kernels/cuda/device/fire_stream.cuh"
#include "kernels/cuda/device/ordered_diagonals.cuh"
#include "kernels/cuda/device/pair_window.cuh"
#include "kernels/cuda/device/scores.cuh"
#include "kernels/cuda/device/tokens.cuh"

namespace posenc::cuda {

template <int kDim, int kMods, int kGroups, int kStages, bool kStream>
struct QueryLayout {
  static constexpr int kRows = kDim / 64 * kGroups * kTileBytes;  // queries, or output gradients
  static constexpr int kOperand = kDim / 64 * kTileBytes;         // keys or values of a tile
  // Values are read once; keys again by the queries' product, which a stream makes one tile later.
  static constexpr int kKeySlots = kStages;
  static constexpr int kValueSlots = kStream ? kStages - 1 : kStages;
  static constexpr int kStart = 2 * kRows;
  static constexpr int kValues = kStart + kKeySlots * kOperand;
  // Keys in their own order, for cheaper sums along diagonals, and accumulators that start as biases.
  static constexpr bool kHasTokens = (kMods & kTokens) != 0;
  static constexpr bool kHasFire = (kMods & kFire) != 0;
  static constexpr bool kInOrder =
      kStream && ((kMods & ~kSoftcap) == kToeplitz || kHasTokens || kHasFire);
  using Pairs = PairWindow<kGroups * 64, 64>;
  // FIRE: psi, its derivative, and the segments of each warp.
  static constexpr int kSpans = 2 * Pairs::kBytes;
  static constexpr int kWindow = kHasFire   ? kSpans + 128
                                 : kInOrder ? Pairs::kBytes
                                            : Window<kGroups * 64>::kBytes;
  static constexpr int kGroupStrips = kInOrder ? OrderedDiagonals::kBytes : kStripsBytes;
  static constexpr int kWindows = kValues + kValueSlots * kOperand;
  static constexpr bool kHasToeplitz = (kMods & kToeplitz) != 0;
  static constexpr int kStrips = kWindows + (kHasToeplitz || kHasFire ? kKeySlots * kWindow
                                             : kHasTokens ? kKeySlots * TokenParts::bytes(64)
                                                          : 0);
  static constexpr int kSegmentSums = 2 * kStreamSegments;  // floats of a warp
  static constexpr int kBarriers =
      kStrips + (kHasToeplitz ? kGroups * kGroupStrips
                 : kHasFire   ? kGroups * 4 * kSegmentSums * 4 + kFireTableBytes
                              : 0);
  static constexpr int kFireTable = kBarriers - kFireTableBytes;
  static constexpr int kTables = kBarriers + (kStream ? 128 : 0);
  static_assert((2 * kKeySlots + kValueSlots + 1) * 8 <= 120);
  // The first tile of a block of rows that something is left for.
  static constexpr int kFirstTile = kBarriers + 120;
  // The scratch of the tables' products must fit into the slots.
  static_assert(kWindows - kStart >= kGroups * 2 * kTileBytes);
  static int bytes(int npos) {
    return 1024 + kTables + (npos > 0 ? 2 * kGroups * 64 * logit_stride(npos) * 4 : 0);
  }
};

template <int kGroups>
inline constexpr int kQueryStreamThreads = (kGroups + 1) * 128;

// Blocks of rows of a launch.
template <int kGroups>
__device__ inline int query_blocks(const BackwardSpace& space, const Sequence& s) {
  const int rows = min(space.chunk, s.queries - space.first_query);
  return (rows + kGroups * 64 - 1) / (kGroups * 64);
}

// Tiles of keys of the rows [first, last].
template <int kMods>
__device__ inline Range query_key_tiles(const AttentionParams& p, const Sequence& s, int head,
                                        int first, int last) {
  if constexpr ((kMods & kTokens) != 0) return kept_key_tiles(p, s, head, first, last);
  return key_tiles(s, first, last);
}

// Copies by kThreads threads, of one head.
template <class T, int kDim, int kMods, int kGroups, class Layout, int kThreads>
struct QueryTiles {
  __device__ QueryTiles(const AttentionParams& p, const Sequence& sequence, int head,
                        std::uint32_t base, int thread)
      : params(p), s(sequence), head(head), base(base), thread(thread) {
    const int kv_head = head / (p.heads / p.kv_heads);
    k = rows_of<T>(p.k, s.batch, kv_head, s.first_key);
    v = rows_of<T>(p.v, s.batch, kv_head, s.first_key);
  }
  // Keys, and the biases of the block's rows from `first_row` on.
  __device__ void copy_keys(int slot, int tile, int first_row) const {
    WindowCopy<typename Layout::Pairs> window;
    float part = 0.0f;
    if constexpr (Layout::kHasTokens) {
      const TokenRow row(params, s, head);
      part = row.key_part(tile * 64 + thread % 64, row.query(first_row));
    } else if constexpr (Layout::kInOrder) {
      window.read(params.toeplitz, head, s.place(first_row), tile * 64, thread);
    }
    copy_rows_of_keys(slot, tile);
    if constexpr (Layout::kHasTokens) {
      const TokenParts parts{base + Layout::kWindows + slot * TokenParts::bytes(64)};
      if (thread < 64) parts.store(thread, part / params.scale);
    } else if constexpr (Layout::kInOrder) {
      window.store(static_cast<float*>(
                       __cvta_shared_to_generic(base + Layout::kWindows + slot * Layout::kWindow)),
                   params.scale, thread);
    } else if constexpr ((kMods & kToeplitz) != 0) {
      Window<kGroups * 64>::load(base + Layout::kWindows + slot * Layout::kWindow, params.toeplitz,
                                 head, s.place(first_row), tile * 64, thread, kThreads);
    }
  }
  __device__ void copy_rows_of_keys(int slot, int tile) const {
    load_tile<kDim, 64, !Layout::kInOrder, kThreads>(
        base + Layout::kStart + slot * Layout::kOperand, k, tile * 64, s.keys, params.head_dim,
        thread);
  }
  // What FIRE reads at the tile; its derivative where gradients of parameters are wanted.
  __device__ void copy_keys_and_psi(int slot, int tile, int first_row, SpanFinder& spans) const {
    WindowCopy<typename Layout::Pairs> psi;
    WindowCopy<typename Layout::Pairs> dpsi;
    const bool derivative = params.fire.dpsi != nullptr;
    psi.read(psi_table(params.fire, false), head, s.place(first_row), tile * 64, thread);
    if (derivative) {
      dpsi.read(psi_table(params.fire, true), head, s.place(first_row), tile * 64, thread);
    }
    if (thread < 4 * kGroups) spans.read_keys(params.fire, tile * 64, 64);
    copy_rows_of_keys(slot, tile);
    auto* to = static_cast<std::uint8_t*>(
        __cvta_shared_to_generic(base + Layout::kWindows + slot * Layout::kWindow));
    psi.store(reinterpret_cast<float*>(to), 1.0f, thread);
    if (derivative) {
      dpsi.store(reinterpret_cast<float*>(to + Layout::Pairs::kBytes), 1.0f, thread);
    }
    if (thread < 4 * kGroups) {
      const auto* table =
          static_cast<const FireEntry*>(__cvta_shared_to_generic(base + Layout::kFireTable));
      reinterpret_cast<FireSpan*>(to + Layout::kSpans)[thread] =
          spans.find(table, params.fire.segments);
    }
  }
  __device__ void copy_values(int slot, int tile) const {
    load_tile<kDim, 64, !Layout::kInOrder, kThreads>(
        base + Layout::kValues + slot * Layout::kOperand, v, tile * 64, s.keys, params.head_dim,
        thread);
  }

  const AttentionParams& params;
  Sequence s;  // not a reference to it: that would take the whole of its owner to memory
  int head;
  std::uint32_t base;
  int thread;
  RowsOf<T> k;
  RowsOf<T> v;
};

// The barriers of a stream; none where there is no stream.
template <class Layout>
struct QueryBarriers {
  static constexpr int kKeys = Layout::kKeySlots;

  [[nodiscard]] __device__ std::uint32_t full(int key_slot) const { return at(key_slot); }
  [[nodiscard]] __device__ std::uint32_t free_keys(int slot) const { return at(kKeys + slot); }
  [[nodiscard]] __device__ std::uint32_t free_values(int slot) const {
    return at(2 * kKeys + slot);
  }
  // The slots are no longer used as scratch, once per block of rows.
  [[nodiscard]] __device__ std::uint32_t begin() const {
    return at(2 * kKeys + Layout::kValueSlots);
  }
  [[nodiscard]] __device__ std::uint32_t at(int i) const {
    return base + Layout::kBarriers + 8 * i;
  }
  // By one of the computing threads before it says that the slots are free, and by those who copy after that.
  __device__ void set_first_tile(int tile) const {
    asm volatile("st.shared.s32 [%0], %1;" ::"r"(base + Layout::kFirstTile), "r"(tile) : "memory");
  }
  [[nodiscard]] __device__ int first_tile() const {
    int tile;
    asm volatile("ld.shared.s32 %0, [%1];"
                 : "=r"(tile)
                 : "r"(base + Layout::kFirstTile)
                 : "memory");
    return tile;
  }
#if POSENC_WGMMA
  __device__ void init(int groups) const {
    for (int i = 0; i < kKeys; ++i) barrier_init(full(i), 128);
    for (int i = 0; i < kKeys + Layout::kValueSlots; ++i) barrier_init(free_keys(i), 4 * groups);
    barrier_init(begin(), 4 * groups);
  }
  __device__ void wait_full(int key_slot, int parity) const {
    barrier_wait(full(key_slot), parity);
  }
  // By a warp, which is together before one lane says that all have read.
  __device__ void arrive(std::uint32_t barrier, int lane) const {
    __syncwarp();
    if (lane == 0) barrier_arrive(barrier);
  }
#else
  __device__ void wait_full(int, int) const {}
  __device__ void arrive(std::uint32_t, int) const {}
#endif

  std::uint32_t base;
};

// Where a computing warpgroup stands among the slots, and how it gets and gives them back.
template <class T, int kDim, int kMods, int kGroups, int kStages, bool kStream>
class QueryFeed {
  using Layout = QueryLayout<kDim, kMods, kGroups, kStages, kStream>;
  static constexpr int kThreads = kGroups * 128;

 public:
  using Tiles = QueryTiles<T, kDim, kMods, kGroups, Layout, kThreads>;
  // With more than two stages the queries' product of a tile is made during the next one.
  static constexpr bool kDefer = kStages > 2;
  static constexpr int kAhead = kStages - (kDefer ? 2 : 1);  // tiles under way during another
  static_assert(!kDefer || kAhead >= 1);

  __device__ explicit QueryFeed(std::uint32_t base) : base_(base) {}

  // By the threads themselves. Not kept: a stream hardly needs it, and has no registers for it.
  __device__ Tiles copies(const AttentionParams& p, const Sequence& s, int head) const {
    return Tiles(p, s, head, base_, static_cast<int>(threadIdx.x));
  }
  // Starts to copy the i-th of `tiles`.
  __device__ void fetch(const Tiles& copies, const Range& tiles, int first_row, int i, int tile,
                        bool values) const {
    if (tile >= tiles.first && tile < tiles.end) {
      copies.copy_keys(i % kStages, tile, first_row);
      if (values) copies.copy_values(i % kStages, tile);
    }
    copies_commit();
  }

  // A walk up: begin, and then need and next for every tile.
  __device__ void begin(const Tiles& copies, const Range& tiles, int first_row) {
    if constexpr (kStream) return;
    keys_ = {};
    values_ = {};
    for (int i = 0; i < kAhead; ++i) fetch(copies, tiles, first_row, i, tiles.first + i, true);
  }
  // Waits for a tile, and begins to copy one to come.
  __device__ void need(const Tiles& copies, const Range& tiles, int first_row, int tile) const {
    if constexpr (kStream) {
      barriers().wait_full(keys_.slot, keys_.parity);
      return;
    }
    const int i = tile - tiles.first;
    if constexpr (kAhead == 0) {
      threads_sync<kThreads>();
      fetch(copies, tiles, first_row, i, tile, true);
    }
    copies_wait<(kAhead > 0 ? kAhead - 1 : 0)>();
    publish_smem();
    threads_sync<kThreads>();
    if constexpr (kAhead > 0) fetch(copies, tiles, first_row, i + kAhead, tile + kAhead, true);
  }
  __device__ void next() {
    keys_.next();
    values_.next();
  }

  [[nodiscard]] __device__ int key_slot() const { return keys_.slot; }
  [[nodiscard]] __device__ int slot_before() const { return keys_.before; }
  [[nodiscard]] __device__ int value_slot() const { return values_.slot; }
  [[nodiscard]] __device__ std::uint32_t keys_at(int slot) const {
    return base_ + Layout::kStart + slot * Layout::kOperand;
  }
  [[nodiscard]] __device__ std::uint32_t values_at(int slot) const {
    return base_ + Layout::kValues + slot * Layout::kOperand;
  }

  __device__ void release_keys(int slot, int lane) const {
    if constexpr (kStream) barriers().arrive(barriers().free_keys(slot), lane);
  }
  __device__ void release_values(int lane) const {
    if constexpr (kStream) barriers().arrive(barriers().free_values(values_.slot), lane);
  }
  // The slots are no longer scratch.
  __device__ void let_copy(int lane) const {
    if constexpr (kStream) barriers().arrive(barriers().begin(), lane);
  }
  // The walk up begins there; before let_copy, by one thread.
  __device__ void begin_at(int tile) const {
    if constexpr (kStream) barriers().set_first_tile(tile);
  }

 private:
  [[nodiscard]] __device__ QueryBarriers<Layout> barriers() const { return {base_}; }

  std::uint32_t base_;
  SlotTurn<Layout::kKeySlots> keys_;
  SlotTurn<Layout::kValueSlots> values_;
};

#if POSENC_WGMMA

// The producer warpgroup, the last of the block.
template <class T, int kDim, int kMods, int kGroups, int kStages>
class QueryCopies {
  using Layout = QueryLayout<kDim, kMods, kGroups, kStages, true>;

 public:
  __device__ QueryCopies(const AttentionParams& p, const BackwardSpace& space, std::uint32_t base)
      : space_(space),
        s_(sequence_of(p, blockIdx.z)),
        tiles_(p, s_, static_cast<int>(blockIdx.y), base, static_cast<int>(threadIdx.x % 128)),
        barriers_{base} {}

  __device__ void run() {
    for_each_block(query_blocks<kGroups>(space_, s_), [&](int block) {
      if constexpr ((kMods & kScans) != 0) {
        barrier_wait(barriers_.begin(), begun_);
        begun_ ^= 1;
      }
      copy_block(space_.first_query + block * kGroups * 64);
    });
  }

 private:
  __device__ void copy_block(int first_row) {
    Range tiles = query_key_tiles<kMods>(tiles_.params, s_, tiles_.head, first_row,
                                         first_row + kGroups * 64 - 1);
    if constexpr ((kMods & kSticks) != 0) tiles.first = barriers_.first_tile();
    if constexpr (Layout::kHasFire) {
      spans_.read_rows(tiles_.params, s_, first_row + 16 * tiles_.thread, 16);
    }
#pragma unroll 1
    for (int tile = tiles.first; tile < tiles.end; ++tile) {
      make_room();
      if constexpr (Layout::kHasFire) {
        tiles_.copy_keys_and_psi(keys_.slot, tile, first_row, spans_);
      } else {
        tiles_.copy_keys(keys_.slot, tile, first_row);
      }
      tiles_.copy_values(values_.slot, tile);
      copies_commit();
      if (unannounced_) announce<1>();
      unannounced_ = true;
      keys_.next();
      values_.next();
    }
    if (unannounced_) announce<0>();
  }
  // What has been copied is announced before a wait: the computing warpgroups may need it to go on.
  __device__ void make_room() {
    const bool over = (!keys_.again || barrier_is_over(free_keys(), keys_.parity ^ 1)) &&
                      (!values_.again || barrier_is_over(free_values(), values_.parity ^ 1));
    if (unannounced_ && !__all_sync(~0u, over)) announce<0>();
    if (keys_.again) barrier_wait(free_keys(), keys_.parity ^ 1);
    if (values_.again) barrier_wait(free_values(), values_.parity ^ 1);
  }
  [[nodiscard]] __device__ std::uint32_t free_keys() const {
    return barriers_.free_keys(keys_.slot);
  }
  [[nodiscard]] __device__ std::uint32_t free_values() const {
    return barriers_.free_values(values_.slot);
  }
  // That the tile before has arrived, with up to kLeft behind it under way.
  template <int kLeft>
  __device__ void announce() {
    copies_wait<kLeft>();
    publish_smem();
    barrier_arrive(barriers_.full(keys_.before));
    unannounced_ = false;
  }

  const BackwardSpace& space_;
  Sequence s_;
  QueryTiles<T, kDim, kMods, kGroups, Layout, 128> tiles_;
  QueryBarriers<Layout> barriers_;
  SlotTurn<Layout::kKeySlots> keys_;
  SlotTurn<Layout::kValueSlots> values_;
  SpanFinder spans_;
  int begun_ = 0;
  bool unannounced_ = false;
};

#endif

}  // namespace posenc::cuda
