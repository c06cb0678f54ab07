// The pipeline of the warp-specialised backward for keys: one producer warpgroup and two consumer warpgroups with 64 keys
// each, on tiles of 64 queries. Every stage has a full and an empty barrier, so the consumers need not run in step.
//
// A stage also holds numbers per row that the producer loads one tile ahead: the initial values of the accumulators and
// CoPE's sums.
#pragma once

#include "kernels/cuda/device/backward_key_walk.cuh"
#include "kernels/cuda/device/barriers.cuh"
#include "kernels/cuda/device/fire_stream.cuh"
#include "kernels/cuda/device/pair_window.cuh"
#include "kernels/cuda/device/sticks.cuh"
#include "kernels/cuda/device/tokens.cuh"

namespace posenc::cuda {

template <int kDim, int kMods>
struct KeyStreamSizes {
  static constexpr bool kHasCope = (kMods & kCope) != 0;
  static constexpr bool kHasSticks = (kMods & kSticks) != 0;
  static constexpr bool kScansKeys = kHasCope || kHasSticks;  // in tiles of queries by keys
  static constexpr bool kHasFire = (kMods & kFire) != 0;
  static constexpr bool kHasSoftcap = (kMods & kSoftcap) != 0;
  static constexpr bool kHasWindow = kHasFire || (kMods & kToeplitz) != 0;  // biases, or psi
  static constexpr int kGroups = 2;                                         // that compute
  static constexpr int kStages = kDim == 128 && kScansKeys ? 3 : 4;
  static constexpr int kTableSlots = kDim == 128 ? 2 : kStages;  // CoPE's logits
  static constexpr int kWeightTiles = kDim == 128 ? 1 : 2;  // per warpgroup, of tiles with scans
  // Whether dk's product of a tile overlaps the next tile's scores, which holds its stage longer.
  static constexpr bool kDefer = kStages > 3;
  static constexpr int kThreads = (kGroups + 1) * 128;
  static constexpr int kKeys = kGroups * 64;
  // Of 168 a thread, most go to those who compute.
  static constexpr int kComputing = kDim == 128 ? 240 : 232;
  static constexpr int kCopying = 3 * 168 - 2 * kComputing;
};

// Of one tile of queries.
template <int kDim, int kMods>
struct KeyStreamRows {
  using Of = KeyStreamSizes<kDim, kMods>;
  float scores
      [64];  // -lse / scale; with CoPE that of saturated keys; with a softcap -lse as an exponent of two
  float grads[64];  // -delta
  float lse2[Of::kScansKeys ? 64 : 1];
  std::uint32_t carry[Of::kScansKeys ? Of::kGroups * 64 : 1];  // of sticks bits of a float
  float prefix[Of::kScansKeys ? Of::kGroups * 64 : 1];
  int counted[4];  // whether 32 rows of `carry` are saturated, or have nothing left
  alignas(16) float row_scale[Of::kHasFire ? 64 : 1];
  FireSpan spans[Of::kHasFire ? 4 * Of::kGroups : 1];  // by warp
  alignas(16) float window[Of::kHasWindow ? 2 * QueryWindow<Of::kKeys>::kCopy : 4];
};

template <int kDim, int kMods>
struct KeyStreamLayout {
  using Of = KeyStreamSizes<kDim, kMods>;
  using Rows = KeyStreamRows<kDim, kMods>;
  static constexpr int kOwn = kDim / 64 * Of::kGroups * kTileBytes;  // keys, or values
  static constexpr int kOperand = kDim / 64 * kTileBytes;            // queries, or their gradients
  static constexpr int kStage = 2 * kOperand;
  static constexpr int kStart = 2 * kOwn;
  static constexpr int kWeights = kStart + Of::kStages * kStage;
  static constexpr int kGroupWeights = Of::kScansKeys ? Of::kWeightTiles * kTileBytes : 0;
  static constexpr int kRows = kWeights + Of::kGroups * kGroupWeights;
  static constexpr int kBarriers = kRows + Of::kStages * static_cast<int>(sizeof(Rows));
  static constexpr int kFireTable = kBarriers + 128;
  static constexpr int kTables = kFireTable + (Of::kHasFire ? kFireTableBytes : 0);
  static_assert(2 * Of::kStages * 8 <= 128 && sizeof(Rows) % 16 == 0);
  static int bytes(int npos) {
    return 1024 + kTables + (npos > 0 ? Of::kTableSlots * 64 * logit_stride(npos) * 4 : 0);
  }
};

#if POSENC_WGMMA

enum KeyBarrier : int { kFull = 0, kFree = 1 };

// What both kinds of warpgroups know.
template <class T, int kDim, int kMods>
struct KeyStreamBlock {
  using Of = KeyStreamSizes<kDim, kMods>;
  using Layout = KeyStreamLayout<kDim, kMods>;
  using Rows = typename Layout::Rows;
  using Turn = SlotTurn<Of::kStages>;

  // `memory` is an address in shared memory.
  __device__ KeyStreamBlock(const AttentionBackwardParams& b, const BackwardSpace& space,
                            std::uint32_t memory)
      : walk(b, space),
        base(__shfl_sync(~0u, memory, 0)),  // kept in a register
        smem(static_cast<std::uint8_t*>(__cvta_shared_to_generic(base))) {
    walk.begin(static_cast<int>(blockIdx.x) * Of::kKeys, Of::kKeys);
  }
  // By all threads, before they part.
  __device__ void start() const {
    if (threadIdx.x == 0) {
      for (int stage = 0; stage < Of::kStages; ++stage) {
        barrier_init(barrier(kFull, stage), 128);
        barrier_init(barrier(kFree, stage), 128 * Of::kGroups);
      }
    }
    if constexpr (Of::kHasFire) {
      load_fire_table(walk.p, walk.kv_head * walk.heads, static_cast<int>(threadIdx.x),
                      fire_table());
    }
    __syncthreads();
  }
  // Of the head that the computing warpgroups are at; its bounds are those of all heads.
  __device__ FireEntry* fire_table() const {
    return reinterpret_cast<FireEntry*>(smem + Layout::kFireTable);
  }
  __device__ std::uint32_t queries_at(int stage) const {
    return base + Layout::kStart + stage * Layout::kStage;
  }
  __device__ Rows& rows_at(int stage) const {
    return reinterpret_cast<Rows*>(smem + Layout::kRows)[stage];
  }
  __device__ int table_at(int slot) const {  // in bytes
    return Layout::kTables + slot * 64 * logit_stride(walk.p.cope.npos_max) * 4;
  }
  __device__ std::uint32_t barrier(int kind, int stage) const {
    return base + Layout::kBarriers + (kind * Of::kStages + stage) * 8;
  }
  __device__ void wait(int kind, int stage, int parity) const {
    barrier_wait(barrier(kind, stage), parity);
  }

  KeyWalk walk;
  std::uint32_t base;
  std::uint8_t* smem;
};

// The producer warpgroup.
template <class T, int kDim, int kMods>
class KeyStreamCopies {
  using Block = KeyStreamBlock<T, kDim, kMods>;
  using Of = KeyStreamSizes<kDim, kMods>;
  using Layout = KeyStreamLayout<kDim, kMods>;
  using Window = QueryWindow<Of::kKeys>;
  static_assert(!Of::kScansKeys || Of::kGroups == 2, "a thread has one row of one warpgroup");

  // Loads one tile.
  struct Place {
    int tile;
    int head;
  };

 public:
  __device__ explicit KeyStreamCopies(const Block& block)
      : b_(block), walk_(block.walk), thread_(threadIdx.x % 128) {}

  __device__ void run() {
    const int count = walk_.count();
    if (count == 0) return;
    walk_.template load_own<T, kDim, Of::kGroups, Of::kScansKeys, 128>(walk_.p.k, b_.base, thread_);
    walk_.template load_own<T, kDim, Of::kGroups, Of::kScansKeys, 128>(
        walk_.p.v, b_.base + Layout::kOwn, thread_);
    Place place{walk_.tiles.first, walk_.kv_head * walk_.heads};
    const int heads_end = place.head + walk_.heads;
    if constexpr (Of::kScansKeys) counting_ = walk_.first_counting(place.tile, place.head);
    read_rows(place, following(place), heads_end);
#pragma unroll 1
    for (int n = 0; n < count; ++n) {
      if (n >= Of::kStages) make_room(n, turn_.slot, turn_.parity ^ 1);
      const bool counts = store_rows();
      const Place next = following(place);
      if (next.head < heads_end) read_rows(next, following(next), heads_end);
      copy(n, place, counts);
      copies_commit();
      if (announced_ < n) announce<1>(turn_.before);
      place = next;
      turn_.next();
    }
    announce<0>(turn_.before);
  }

 private:
  __device__ Place following(const Place& place) const {
    const bool last = place.tile + 1 == walk_.tiles.end;
    return {last ? walk_.tiles.first : place.tile + 1, place.head + (last ? 1 : 0)};
  }

  // Waits until a stage is no longer read. What has been copied is announced first: the computing
  // warpgroups may need it to go on.
  __device__ void make_room(int n, int stage, int parity) {
    const bool over = barrier_is_over(b_.barrier(kFree, stage), parity);
    if (announced_ < n && !__all_sync(~0u, over)) announce<0>(turn_.before);
    b_.wait(kFree, stage, parity);
  }
  // That a tile has arrived, with up to kLeft behind it under way.
  template <int kLeft>
  __device__ void announce(int stage) {
    copies_wait<kLeft>();
    publish_smem();
    barrier_arrive(b_.barrier(kFull, stage));
    ++announced_;
  }

  __device__ void copy(int n, const Place& place, bool counts) {
    const AttentionParams& p = walk_.p;
    const Sequence& s = walk_.s;
    const std::uint32_t to = b_.queries_at(turn_.slot);
    if (Of::kHasSticks && !counts) return;
    load_tile<kDim, 64, false, 128>(to, rows_of<T>(p.q, s.batch, place.head, s.first_query),
                                    place.tile * 64, s.queries, p.head_dim, thread_);
    load_tile<kDim, 64, false, 128>(
        to + Layout::kOperand, rows_of<T>(walk_.b.grad_out, s.batch, place.head, s.first_query),
        place.tile * 64, s.queries, p.head_dim, thread_);
    if (Of::kHasCope && counts) copy_table(n, place);
  }
  __device__ void copy_table(int n, const Place& place) {
    if constexpr (Of::kTableSlots < Of::kStages) {
      // Tile n - kTableSlots had this slot.
      const int stage = (n - Of::kTableSlots) % Of::kStages;
      const int parity = (n - Of::kTableSlots) / Of::kStages & 1;
      if (n >= Of::kTableSlots) make_room(n, stage, parity);
    }
    const std::uint32_t to = b_.base + b_.table_at(n % Of::kTableSlots);
    const float* from = walk_.logits_of(place.tile, place.head);
    for (int i = thread_; i < 16 * logit_stride(walk_.p.cope.npos_max); i += 128) {
      copy_16_async(to + 16 * i, from + 4 * i);
    }
  }

  // Begins to read what store_rows() will store. Threads 0 to 63 have the log-sum-exps, the others the
  // products of outputs and their gradients.
  __device__ void read_rows(const Place& place, const Place& next, int heads_end) {
    const AttentionParams& p = walk_.p;
    const Sequence& s = walk_.s;
    const int query = place.tile * 64 + thread_ % 64;
    const bool real = query < s.queries;
    const std::int64_t at =
        (static_cast<std::int64_t>(s.batch) * p.heads + place.head) * p.queries + s.first_query +
        query;
    const float* from = thread_ < 64 ? p.lse : walk_.space.delta;
    value_ = thread_ < 64 ? -INFINITY : 0.0f;
    if (real) value_ = from[at];
    if constexpr ((kMods & kTokens) != 0) {
      const TokenRow row(p, s, place.head);
      at_query_ = row.query(query);
      key_base_ = row.key_base(walk_.first_key);
    }
    if constexpr (Of::kHasWindow) {
      window_.read(Of::kHasFire ? psi_table(p.fire, false) : p.toeplitz, place.head,
                   s.place(place.tile * 64), walk_.first_key, thread_);
    }
    if constexpr (Of::kHasFire) {
      row_scale_ = row_scale_of(p, s, query);
      spans_.read_rows(p, s, place.tile * 64, 64);
      spans_.read_keys(p.fire, walk_.first_key + 16 * min(thread_, 4 * Of::kGroups - 1), 16);
    }
    if constexpr (Of::kScansKeys) {
      read_sums(place, real);
      if (next.head < heads_end) counting_ = walk_.first_counting(next.tile, next.head);
    }
  }
  __device__ void read_sums(const Place& place, bool real) {
    const int row = thread_ % 64;
    const int key = walk_.first_key + thread_ / 64 * 64;
    if constexpr (Of::kHasCope) {
      last_ = walk_.logits_of(
          place.tile,
          place.head)[row * logit_stride(walk_.p.cope.npos_max) + walk_.p.cope.npos_max - 1];
    }
    carry_ = Of::kHasCope ? walk_.cope_scores().last : __float_as_uint(-INFINITY);
    prefix_ = 0.0f;
    if (real && key < walk_.s.keys && key / 64 >= counting_) {
      const std::int64_t at = walk_.sums_at(place.tile, place.head, key) + row;
      carry_ = walk_.space.carries[at];
      prefix_ = walk_.space.prefixes[at];
    }
  }
  // Returns whether some key of the block is not past CoPE's table, or has something left.
  __device__ bool store_rows() {
    typename Block::Rows& rows = b_.rows_at(turn_.slot);
    const float unscaled = Of::kHasSoftcap ? kLog2e : 1.0f / walk_.p.scale;
    const int row = thread_ % 64;
    // The row's part of a term per token is in the start of its scores.
    if ((kMods & kTokens) != 0 && thread_ < 64) {
      value_ -= static_cast<float>(at_query_ - key_base_);
    }
    if (thread_ < 64) {
      const float constant = Of::kHasCope ? last_ : 0.0f;
      rows.scores[row] = value_ == -INFINITY ? -INFINITY : (constant - value_) * unscaled;
      if (Of::kScansKeys) rows.lse2[row] = value_ == -INFINITY ? INFINITY : value_ * kLog2e;
    } else {
      rows.grads[row] = -value_;
    }
    if constexpr (Of::kHasWindow) {
      window_.store(rows.window, Of::kHasFire ? 1.0f : walk_.p.scale, thread_);
    }
    if constexpr (Of::kHasFire) {
      if (thread_ < 64) rows.row_scale[row] = row_scale_;
      if (thread_ < 4 * Of::kGroups) {
        rows.spans[thread_] = spans_.find(b_.fire_table(), walk_.p.fire.segments);
      }
    }
    if constexpr (!Of::kScansKeys) return false;
    rows.carry[thread_] = carry_;
    rows.prefix[thread_] = prefix_;
    if constexpr (Of::kHasSticks) {
      const float left[2] = {__uint_as_float(carry_), __uint_as_float(carry_)};
      const bool nothing = __all_sync(~0u, nothing_left(left));
      if (thread_ % 32 == 0) rows.counted[thread_ / 32] = nothing ? 1 : 0;
      return !nothing_left_by<128>(left, Of::kGroups + 1);
    }
    const CopeScores cope = walk_.cope_scores();
    const bool all = __all_sync(~0u, carry_ >= cope.last);
    if (thread_ % 32 == 0) rows.counted[thread_ / 32] = all ? 1 : 0;
    const std::uint32_t both[2] = {carry_, carry_};
    return !all_counted_in_group(cope, both, Of::kGroups);
  }

  Block b_;
  const KeyWalk& walk_;
  int thread_;
  typename Block::Turn turn_;
  int announced_ = 0;  // tiles
  int counting_ = 0;   // of the tile that is read next
  float value_ = 0.0f;
  double at_query_ = 0.0;
  double key_base_ = 0.0;
  float row_scale_ = 0.0f;
  SpanFinder spans_;
  WindowCopy<Window> window_;
  float last_ = 0.0f;
  std::uint32_t carry_ = 0;
  float prefix_ = 0.0f;
};

#endif

}  // namespace posenc::cuda
