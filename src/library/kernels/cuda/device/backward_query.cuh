// Attention backward for dq: a thread block owns 64 queries per warpgroup and loops over its keys from the
// first to the last. With CoPE, a loop from the last key to the first comes before it and computes the sum of gates at
// each tile; both sums are stored for the kernel of the keys. Gradients of parameters are accumulated here too.
#pragma once

#include "kernels/cuda/device/gradients.cuh"
#include "kernels/cuda/device/output.cuh"
#include "kernels/cuda/device/query_stream.cuh"
#include "kernels/cuda/device/sticks.cuh"
#include "kernels/cuda/device/table_gradients.cuh"

namespace posenc::cuda {

template <class T, int kDim, int kMods, int kGroups, int kStages, bool kStream>
class BackwardQuery {
  using Layout = QueryLayout<kDim, kMods, kGroups, kStages, kStream>;
  using Feed = QueryFeed<T, kDim, kMods, kGroups, kStages, kStream>;
  static constexpr int kParts = kDim / 64;
  static constexpr int kThreads = kGroups * 128;  // that compute
  // The queries' product of a tile runs while the next tile's scores are differentiated, so that its
  // keys stay one step longer. CoPE allows that where it only adds constants.
  static constexpr bool kDefer = Feed::kDefer;
  static constexpr int kAhead = Feed::kAhead;
  static constexpr bool kWide = (kMods & kCope) == 0;  // CoPE leaves too few registers
  static constexpr bool kInOrder = Layout::kInOrder;
  static constexpr bool kHasSticks = (kMods & kSticks) != 0;

 public:
  __device__ BackwardQuery(const AttentionBackwardParams& b, const BackwardSpace& space,
                           std::uint8_t* smem)
      : b_(b),
        p_(b.forward),
        space_(space),
        smem_(smem),
        base_(smem_address(smem)),
        feed_(base_),
        s_(sequence_of(p_, blockIdx.z)),
        head_(static_cast<int>(blockIdx.y)) {
    group_ = warpgroup();
    mask_ = key_mask_of(p_, s_);
    sequence_head_ = static_cast<std::int64_t>(s_.index) * p_.heads + head_;
    if constexpr ((kMods & kToeplitz) != 0) {
      auto* strips = reinterpret_cast<float*>(smem_ + Layout::kStrips);
      for (int i = threadIdx.x; i < kGroups * Layout::kGroupStrips / 4; i += kThreads) {
        strips[i] = 0.0f;
      }
    }
    if constexpr (Layout::kHasFire) {
      for (int i = mine_.lane; i < Layout::kSegmentSums; i += 32) segment_sums(warp())[i] = 0.0f;
    }
  }

  __device__ void run() {
    for_each_block(query_blocks<kGroups>(space_, s_), [&](int block) { run_block(block); });
    if constexpr (Layout::kHasFire) {
      if (wants_fire()) store_segments();
    }
  }

 private:
  __device__ void run_block(int block) {
    first_row_ = space_.first_query + block * kGroups * 64;
    query_ = first_row_ + 64 * group_;
    tiles_ = query_key_tiles<kMods>(p_, s_, head_, first_row_, first_row_ + kThreads / 2 - 1);
    own_ = query_key_tiles<kMods>(p_, s_, head_, query_, query_ + 63);
    threads_sync<kThreads>();
    start();
    if constexpr ((kMods & kCope) != 0) {
      find_carries();
      feed_.let_copy(mine_.lane);
    }
    if constexpr (kHasSticks) {
      find_sticks();
      if (threadIdx.x == 0) feed_.begin_at(counting_);
      feed_.let_copy(mine_.lane);
    }
    walk_up();
    if constexpr (Layout::kHasTokens) {
      if (b_.dtoken_queries != nullptr) store_row_sums(b_, s_, head_, query_, mine_, sums_);
    }
    if constexpr (Layout::kHasFire) {
      if (wants_fire()) store_fire_rows();
    }
    if constexpr ((kMods & kCope) != 0) {
      finish_tables();
    } else {
      store_queries(b_.dq, p_.scale);
    }
  }

  __device__ int warp() const { return 4 * group_ + static_cast<int>(threadIdx.x) / 32 % 4; }
  __device__ bool wants_fire() const { return b_.dfire_rows != nullptr; }
  __device__ FireEntry* fire_table() const {
    return reinterpret_cast<FireEntry*>(smem_ + Layout::kFireTable);
  }
  // A warp's own.
  __device__ float* segment_sums(int warp) const {
    return reinterpret_cast<float*>(smem_ + Layout::kStrips) + warp * Layout::kSegmentSums;
  }
  __device__ FireSpan span() const {
    return reinterpret_cast<const FireSpan*>(window_start() + Layout::kSpans)[warp()];
  }
  // Of psi, or (1) of its derivative.
  __device__ const float2* pairs(int which) const {
    const auto* start =
        reinterpret_cast<const float*>(window_start() + which * Layout::Pairs::kBytes);
    return Layout::Pairs::at(start, 64 * group_ + mine_.row[0], mine_.column);
  }
  __device__ const std::uint8_t* window_start() const {
    return smem_ + Layout::kWindows + feed_.key_slot() * Layout::kWindow;
  }
  __device__ void store_fire_rows() {
    const std::int64_t first =
        (static_cast<std::int64_t>(s_.batch) * p_.heads + head_) * p_.queries + s_.first_query +
        query_;
    fire_.finish_rows(fire_table(), segment_sums(warp()), p_.scale,
                      reinterpret_cast<float2*>(b_.dfire_rows) + first, mine_, s_.queries - query_);
  }
  // The sums of all warps, in their order.
  __device__ void store_segments() const {
    threads_sync<kThreads>();
    const int entries = 2 * p_.fire.segments;
    float* to =
        space_.dfire_segments +
        ((static_cast<std::int64_t>(s_.index) * gridDim.x + blockIdx.x) * p_.heads + head_) *
            entries;
    for (int i = static_cast<int>(threadIdx.x); i < entries; i += kThreads) {
      float sum = 0.0f;
      for (int warp = 0; warp < 4 * kGroups; ++warp) sum += segment_sums(warp)[i];
      to[i] += sum;
    }
  }

  __device__ void load_rows(const Tensor4& x, std::uint32_t to) {
    load_tile<kDim, kGroups * 64, false, kGroups * 128>(
        to, rows_of<T>(x, s_.batch, head_, s_.first_query), first_row_, s_.queries, p_.head_dim);
  }
  __device__ void settle() {
    copies_commit();
    copies_wait<0>();
    publish_smem();
    threads_sync<kThreads>();
  }
  __device__ bool has_plain() const { return p_.cope.plain_q.data != nullptr; }

  __device__ void start() {
    load_row_state(p_, space_.delta, s_, head_, query_, mine_, rows_);
    if constexpr (Layout::kHasTokens) {
      take_row_parts();
      sums_[0] = sums_[1] = 0.0f;
    }
    if constexpr (Layout::kHasFire) fire_.start_rows(p_, s_, query_, mine_);
    load_rows(b_.grad_out, base_ + Layout::kRows);
    load_rows((kMods & kCope) != 0 && has_plain() ? p_.cope.plain_q : p_.q, base_);
    settle();
#pragma unroll
    for (int d = 0; d < kParts; ++d) zero(dq_[d]);
    if constexpr ((kMods & kCope) != 0) start_cope();
    if constexpr (kHasSticks) prefix_[0] = prefix_[1] = 0.0f;
  }

  // Scores have the keys' parts alone.
  __device__ void take_row_parts() {
    const TokenRow row(p_, s_, head_);
    const double base = row.query(first_row_);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      rows_.lse2[h] -= row.query_part(query_ + mine_.row[h], base) * kLog2e;
    }
  }

  __device__ void start_cope() {
    const int stride = logit_stride(p_.cope.npos_max);
    auto* tables = reinterpret_cast<float*>(smem_ + Layout::kTables);
    fill_tables<T, kDim, kGroups>(CopeLogits{p_, head_}, base_, smem_ + Layout::kStart, tables,
                                  group_);
    if (has_plain()) {
      load_rows(p_.q, base_);
      settle();
    }
    const int count = kGroups * 64 * stride;
    float* dtables = tables + count;
    const int first = first_row_ - space_.first_query;
    float* kept = space_.logits + (sequence_head_ * space_.chunk + first) * stride;
    const int kept_count = min(kGroups * 64, space_.chunk - first) * stride;
#pragma unroll 4
    for (int i = 4 * static_cast<int>(threadIdx.x); i < count; i += 4 * kThreads) {
      *reinterpret_cast<float4*>(dtables + i) = {0.0f, 0.0f, 0.0f, 0.0f};
      if (i >= kept_count) continue;
      *reinterpret_cast<float4*>(kept + i) = *reinterpret_cast<const float4*>(tables + i);
    }
    threads_sync<kThreads>();
    cope_ = {p_.scale, p_.cope.gates_see_bias,
             static_cast<std::uint32_t>(p_.cope.npos_max - 1) << kPositionBits};
    const TableRows own = table_rows();
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      last_[h] = own.z[h][p_.cope.npos_max - 1];
      prefix_[h] = 0.0f;
    }
    saturated_ = false;
  }
  // Of the thread's two rows: logits and their gradients.
  struct TableRows {
    const float* z[2];
    float* dz[2];
  };
  __device__ TableRows table_rows() const {
    const int stride = logit_stride(p_.cope.npos_max);
    float* first =
        reinterpret_cast<float*>(smem_ + Layout::kTables) + (64 * group_ + mine_.row[0]) * stride;
    float* dfirst = first + kGroups * 64 * stride;
    return {{first, first + 8 * stride}, {dfirst, dfirst + 8 * stride}};
  }

  __device__ const float* window(int slot) const {
    if constexpr ((kMods & kToeplitz) == 0) return nullptr;
    const auto* start =
        reinterpret_cast<const float*>(smem_ + Layout::kWindows + slot * Layout::kWindow);
    return Window<kGroups * 64>::at(start, 64 * group_ + mine_.row[0], mine_.column);
  }
  // x = own rows of queries, or of output gradients, times rows of a tile; or (more) x += that.
  __device__ void multiply_own(std::uint32_t own, std::uint32_t tile, Accum& x, bool more) {
#pragma unroll
    for (int d = 0; d < kParts; ++d) {
      multiply<T, false, false>(x, own + (d * kGroups + group_) * kTileBytes, tile + d * kTileBytes,
                                more || d > 0);
    }
  }

  __device__ std::int64_t sums_at(int tile, int h) const {
    return (sequence_head_ * space_.key_tiles + tile) * space_.chunk + query_ + mine_.row[h] -
           space_.first_query;
  }
  __device__ bool in_chunk(int h) const {
    return query_ + mine_.row[h] < min(s_.queries, space_.first_query + space_.chunk);
  }

  // The i-th tile of the loop from the last key.
  __device__ void fetch_keys(const typename Feed::Tiles& copies, int i) const {
    feed_.fetch(copies, tiles_, first_row_, i, tiles_.end - 1 - i, false);
  }
  __device__ void find_carries() {
    std::uint32_t carry[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) carry[h] = in_chunk(h) ? 0 : cope_.last;
    const auto copies = feed_.copies(p_, s_, head_);
    for (int i = 0; i < kAhead; ++i) fetch_keys(copies, i);
    counting_ = tiles_.first;
    const int count = tiles_.end - tiles_.first;
#pragma unroll 1
    for (int i = 0; i < count; ++i) {
      const int tile = tiles_.end - 1 - i;
      if constexpr (kAhead == 0) {
        threads_sync<kThreads>();
        fetch_keys(copies, i);
      }
      copies_wait<(kAhead > 0 ? kAhead - 1 : 0)>();
      publish_smem();
      if (all_counted_by<kThreads>(cope_, carry, 0)) {
        counting_ = tile + 1;
        break;
      }
      if constexpr (kAhead > 0) fetch_keys(copies, i + kAhead);
      if (tile < own_.first || tile >= own_.end) continue;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        if (mine_.column == 0 && in_chunk(h)) space_.carries[sums_at(tile, h)] = carry[h];
      }
      if (all_counted_in_group(cope_, carry, group_)) continue;
      Accum x;
      mma_begin();
      multiply_own(base_, feed_.keys_at(i % kStages), x, false);
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
    threads_sync<kThreads>();
  }

  // What is left of the rows' sticks as each tile begins. The block's walk up begins at the first tile that something
  // is left for.
  __device__ void find_sticks() {
    float left[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) left[h] = in_chunk(h) ? 0.0f : -INFINITY;
    const auto copies = feed_.copies(p_, s_, head_);
    for (int i = 0; i < kAhead; ++i) fetch_keys(copies, i);
    counting_ = tiles_.first;
    const int count = tiles_.end - tiles_.first;
#pragma unroll 1
    for (int i = 0; i < count; ++i) {
      const int tile = tiles_.end - 1 - i;
      if constexpr (kAhead == 0) {
        threads_sync<kThreads>();
        fetch_keys(copies, i);
      }
      copies_wait<(kAhead > 0 ? kAhead - 1 : 0)>();
      publish_smem();
      if (nothing_left_by<kThreads>(left, 0)) {
        counting_ = tile + 1;
        break;
      }
      if constexpr (kAhead > 0) fetch_keys(copies, i + kAhead);
      if (tile >= own_.first && tile < own_.end) break_tile(i, tile, left);
    }
    copies_wait<0>();
    if (threadIdx.x % 128 == 0 && query_ - space_.first_query < space_.chunk) {
      space_.first_counting[sequence_head_ * (space_.chunk / 64) +
                            (query_ - space_.first_query) / 64] = counting_;
    }
    tiles_.first = counting_;
    own_.first = max(own_.first, counting_);
    threads_sync<kThreads>();
  }
  __device__ void break_tile(int i, int tile, float (&left)[2]) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if (mine_.column != 0 || !in_chunk(h)) continue;
      space_.carries[sums_at(tile, h)] = __float_as_uint(left[h]);
    }
    if (nothing_left_by<128>(left, group_ + 1)) return;
    Accum x;
    mma_begin();
    multiply_own(base_, feed_.keys_at(i % kStages), x, false);
    mma_commit();
    mma_wait();
    pin(x);
    hide(s_, mask_, mine_, query_, tile * 64, x);
    break_sticks(PlainSticks<true>{p_.scale * kLog2e}, mine_.column, x, left);
  }
  // As the tile begins; keeps the sum over keys before it for the keys' kernel.
  __device__ void load_sticks(int tile, float (&left)[2]) const {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      left[h] = -INFINITY;
      if (!in_chunk(h)) continue;
      left[h] = __uint_as_float(space_.carries[sums_at(tile, h)]);
      if (mine_.column == 0) space_.prefixes[sums_at(tile, h)] = prefix_[h];
    }
  }

  __device__ void walk_up() {
    whole_ = whole_tiles();
    const auto copies = feed_.copies(p_, s_, head_);
    feed_.begin(copies, tiles_, first_row_);
#pragma unroll 1
    for (int tile = tiles_.first; tile < tiles_.end; ++tile) {
      feed_.need(copies, tiles_, first_row_, tile);
      const bool seen = tile >= own_.first && tile < own_.end;
      if (seen) {
        step(tile);
      } else {
        if (pending_) add_queries();
        feed_.release_values(mine_.lane);
        feed_.release_keys(feed_.key_slot(), mine_.lane);
      }
      pending_ = kDefer && seen;
      feed_.next();
    }
    if (pending_) add_queries();
    pending_ = false;
    if constexpr (!kStream) copies_wait<0>();
    threads_sync<kThreads>();
  }
  // Tiles of which all of the warpgroup's rows see all keys and of which nothing is counted or dropped.
  __device__ Range whole_tiles() const {
    if (p_.dropout_threshold != 0 || mask_ != nullptr) return {0, 0};
    const int first = (s_.lowest(query_ + 63) + 63) / 64;
    const int end = (s_.highest(query_) + 1) / 64;
    return {first, (kMods & kCope) != 0 ? min(end, counting_) : end};
  }

  // A tile, and the queries' product of the one before where that is pending.
  __device__ void step(int tile) {
    if constexpr (!kDefer) {
      visit(tile);
      multiply_queries(feed_.key_slot());
    } else if (pending_ && tile >= whole_.first && tile < whole_.end) {
      overlap(tile);
    } else {
      if (pending_) add_queries();
      visit(tile);
    }
  }

  __device__ void multiply_tile(Accum& x, Accum& y) {
    if constexpr (kInOrder && Layout::kHasFire) {
      start_from_fire(fire_table(), span(), fire_.scales(), pairs(0), 0, x);
    } else if constexpr (kInOrder && Layout::kHasTokens) {
      const int slot = feed_.key_slot();
      TokenParts{base_ + Layout::kWindows + slot * TokenParts::bytes(64)}.load(0, mine_.column, x);
    } else if constexpr (kInOrder) {
      start_from_biases(pairs(0), 0, x);
    }
    mma_begin();
    multiply_own(base_, feed_.keys_at(feed_.key_slot()), x, kInOrder);
    multiply_own(base_ + Layout::kRows, feed_.values_at(feed_.value_slot()), y, false);
    mma_commit();
  }
  __device__ void multiply_keys(std::uint32_t keys) {
    mma_begin();
    multiply_rows<T, kWide>(dq_, ds_, keys);
    mma_commit();
  }
  __device__ void multiply_queries(int slot) {
    multiply_keys(feed_.keys_at(slot));
    mma_wait<0>();
#pragma unroll
    for (int d = 0; d < kParts; ++d) pin(dq_[d]);
    feed_.release_keys(slot, mine_.lane);
  }
  __device__ void add_queries() { multiply_queries(feed_.slot_before()); }

  // No branches here: they would make the products wait for each other.
  __device__ void overlap(int tile) {
    float left[2];
    if constexpr (kHasSticks) load_sticks(tile, left);
    Accum x;
    Accum y;
    multiply_tile(x, y);
    multiply_keys(feed_.keys_at(feed_.slot_before()));
    mma_wait<1>();
    pin(x);
    pin(y);
    feed_.release_values(mine_.lane);
    if constexpr (kHasSticks) {
      differentiate_sticks<false>(PlainSticks<false>{p_.scale * kLog2e}, mine_.column, rows_, left,
                                  prefix_, x, y);
    } else {
      differentiate_simply(keep_all(), x, y);
    }
    pin(y);
    mma_wait<0>();
#pragma unroll
    for (int d = 0; d < kParts; ++d) pin(dq_[d]);
    feed_.release_keys(feed_.slot_before(), mine_.lane);
    if constexpr (Layout::kHasTokens) add_row_sums(y, sums_);
    to_fragment<T>(y, ds_);
    add_to_parameters(tile, x);
  }

  __device__ void visit(int tile) {
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
    float left[2];
    if constexpr (kHasSticks) load_sticks(tile, left);
    Accum x;
    Accum y;
    multiply_tile(x, y);
    mma_wait<0>();
    pin(x);
    pin(y);
    feed_.release_values(mine_.lane);
    if constexpr (kInOrder) {
      hide_in_order(s_, mine_, query_, tile * 64, x);
      differentiate_simply(keep_all(), x, y);
      hide_in_order(s_, mine_, query_, tile * 64, x, 0.0f);
      hide_in_order(s_, mine_, query_, tile * 64, y, 0.0f);
      if constexpr (Layout::kHasTokens) add_row_sums(y, sums_);
    } else {
      // A hidden value, or a row's own NaN, must not reach hidden pairs.
      const Seen seen = seen_of(s_, mask_, mine_, query_, tile * 64);
      replace_hidden(seen, -INFINITY, x);
      replace_hidden(seen, 0.0f, y);
      if constexpr (kHasSticks) {
        differentiate_sticks<false>(PlainSticks<true>{p_.scale * kLog2e}, mine_.column, rows_, left,
                                    prefix_, x, y);
      } else {
        differentiate(keep_of(p_, s_, head_, query_, tile * 64, mine_), carry, x, y);
      }
      replace_hidden(seen, 0.0f, x);
      replace_hidden(seen, 0.0f, y);
    }
    add_to_parameters(tile, x);
    to_fragment<T>(y, ds_);
  }

  __device__ void differentiate(const Keep& keep, const std::uint32_t (&carry)[2], Accum& x,
                                Accum& y) {
    if constexpr ((kMods & kCope) != 0) {
      if (!all_counted(cope_, carry)) {
        const TableRows own = table_rows();
        cope_backward<kMods, false>(cope_, window(feed_.key_slot()), own.z, own.dz, mine_.column,
                                    rows_, keep, carry, prefix_, x, y);
        return;
      }
    }
    differentiate_simply(keep, x, y);
  }
  // Where CoPE, if any, only adds constants.
  __device__ void differentiate_simply(const Keep& keep, Accum& x, Accum& y) {
    RowState rows = rows_;
    if constexpr ((kMods & kCope) != 0) {
      rows = without_constants(rows_, last_);
      saturated_ = true;
    }
    constexpr bool kAdds = (kMods & kToeplitz) != 0 && !kInOrder;
    if constexpr (kAdds) add_biases(window(feed_.key_slot()), p_.scale, x);
    if constexpr ((kMods & kSoftcap) != 0) {
      softcap_backward<false>(rows, keep, Softcapped(p_, kAdds), x, y);
      return;
    }
    const float factor = kAdds ? kLog2e : p_.scale * kLog2e;
    softmax_backward<false>(rows, keep, factor, x, y);
  }

  // x: the gradient at the biases.
  __device__ void add_to_parameters(int tile, const Accum& x) {
    if constexpr (Layout::kHasFire) {
      if (wants_fire()) {
        fire_.add(fire_table(), segment_sums(warp()), span(), pairs(0), pairs(1), x);
      }
    } else {
      add_diagonals(tile, x);
    }
  }
  __device__ void add_diagonals(int tile, const Accum& x) {
    if ((kMods & kToeplitz) == 0 || b_.dtoeplitz == nullptr) return;
    auto* strips =
        reinterpret_cast<float*>(smem_ + Layout::kStrips + group_ * Layout::kGroupStrips);
    const std::int64_t partial =
        ((static_cast<std::int64_t>(s_.index) * gridDim.x + blockIdx.x) * kGroups + group_) *
            p_.heads +
        head_;
    float* table = space_.dtoeplitz + partial * p_.toeplitz.span + p_.toeplitz.zero;
    const std::int64_t low = -p_.toeplitz.zero;
    const std::int64_t high = p_.toeplitz.span - p_.toeplitz.zero;
    const std::int64_t distance = s_.place(query_) - tile * 64;
    if constexpr (kInOrder) {
      OrderedDiagonals(strips, mine_).add(x, group_, table, low, high, distance);
    } else {
      Diagonals(strips, mine_).add(x, group_, tile % 2, table, low, high, distance);
    }
  }

  // From the tables' gradient to that of the plain queries, and after these are stored and hold no
  // registers any more, to that of the embedding.
  __device__ void finish_tables() {
    const TableRows own = table_rows();
    const TableGradient<T, kDim, kGroups> tables({p_, head_}, base_, smem_ + Layout::kStart, group_,
                                                 mine_, own.dz);
    float totals[2] = {0.0f, 0.0f};
    if (saturated_) row_totals(p_, head_, rows_, totals);
    tables.settle(saturated_, totals);
    if (p_.cope.slopes != nullptr) {
      store_queries(b_.dq, p_.scale);
      if (b_.dpos_emb != nullptr) tables.add_slopes(partial(4));
      return;
    }
    start_plain_queries();
    for (int first = 0; first < p_.cope.npos_max; first += 64) tables.add_to_queries(first, dq_);
    store_queries(has_plain() ? b_.dplain_q : b_.dq, 1.0f, has_plain());
    if (b_.dpos_emb == nullptr) return;
    tables.forget_unused_queries();
    for (int first = 0; first < p_.cope.npos_max; first += 64) {
      tables.add_to_embedding(first, partial(p_.head_dim * p_.cope.npos_max));
    }
  }
  // What is added from here on is of the plain queries.
  __device__ void start_plain_queries() {
    if (has_plain()) {
      store_queries(b_.dq, p_.scale);
#pragma unroll
      for (int d = 0; d < kParts; ++d) zero(dq_[d]);
      load_rows(p_.cope.plain_q, base_);
      settle();
      return;
    }
#pragma unroll
    for (int i = 0; i < kParts * 32; ++i) dq_[i / 32][i / 4 % 8][i % 4] *= p_.scale;
  }
  // The warpgroup's own partial sum of the embedding's gradient.
  __device__ float* partial(int entries) const {
    return space_.dembedding +
           ((sequence_head_ * gridDim.x + blockIdx.x) * kGroups + group_) * entries;
  }

  // `more`: after other gradients of the same rows.
  __device__ void store_queries(const Tensor4& to, float scale, bool more = false) const {
    store_rows<T>(to, p_.head_dim, s_, head_, query_, mine_, dq_, {scale, scale});
    if (query_ >= s_.queries) return;
    const int block = (query_ - space_.first_query) / 64;
    mark_rows(space_.query_marks + sequence_head_ * (space_.chunk / 64) + block, !all_finite(dq_),
              more);
  }

  const AttentionBackwardParams& b_;
  const AttentionParams& p_;
  const BackwardSpace& space_;
  std::uint8_t* smem_;
  std::uint32_t base_;
  Feed feed_;
  Sequence s_;
  int head_;
  ThreadRows mine_;
  int group_;
  std::int64_t sequence_head_;
  int first_row_;
  int query_;
  const std::uint8_t* mask_;
  Range tiles_;
  Range own_;
  Range whole_;
  bool pending_ = false;  // whether the queries' product of the last tile is yet to be made
  int counting_;          // the first tile that is not saturated, or that something is left for
  RowState rows_;
  CopeScores cope_;
  float last_[2];
  float prefix_[2];
  float sums_[2];  // over keys, of a term per token
  FireGradient fire_;
  bool saturated_;  // whether some keys of these rows are saturated
  Fragment ds_;
  Accum dq_[kParts];
};

}  // namespace posenc::cuda
