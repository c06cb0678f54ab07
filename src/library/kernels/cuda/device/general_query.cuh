// Attention backward for the queries, for every element type and chain: a warpgroup owns 64 queries and
// walks over its keys from the first up, after CoPE has walked down to find the sums of gates. As
// backward_query.cuh, with one operand at a time in shared memory and tables in device memory.
#pragma once

#include "kernels/cuda/device/diagonals.cuh"
#include "kernels/cuda/device/general_block.cuh"
#include "kernels/cuda/device/general_sums.cuh"
#include "kernels/cuda/device/hidden_rows.cuh"
#include "kernels/cuda/device/output.cuh"
#include "kernels/cuda/device/sticks.cuh"
#include "kernels/cuda/device/table_gradients.cuh"

namespace posenc::cuda {

template <class Kind, int kDim, bool kGates>
struct GeneralQueryLayout {
  static constexpr int kGradient = kOperandBytes<Kind, kDim>;
  static constexpr int kPlain = kGradient + kOperandBytes<Kind, kDim>;
  static constexpr int kStaged = kPlain + (kGates ? kOperandBytes<Kind, kDim> : 0);
  static constexpr int kWindows = kStaged + kStagedBytes<Kind, kDim>;
  static constexpr int kStrips = kWindows + 3 * kGeneralWindow;
  static constexpr int kBytes = 1024 + kStrips + kStripsBytes;
};

template <class Kind, int kDim, bool kGates, bool kExtra>
class GeneralQuery {
  using Layout = GeneralQueryLayout<Kind, kDim, kGates>;
  using T = ElementOf<Kind>;
  static constexpr int kParts = kDim / 64;

 public:
  __device__ GeneralQuery(const AttentionBackwardParams& b, const BackwardSpace& space,
                          std::uint8_t* smem, int sequence, int head)
      : b_(b),
        p_(b.forward),
        space_(space),
        smem_(smem),
        base_(smem_address(smem)),
        s_(sequence_of(p_, sequence)),
        head_(head),
        stage_(base_ + Layout::kStaged),
        chain_(p_, head_, reinterpret_cast<const float*>(smem + Layout::kWindows), mine_),
        sums_(space, p_, s_.index, head_) {
    const int kv_head = head_ / (p_.heads / p_.kv_heads);
    k_ = rows_of<T>(p_.k, s_.batch, kv_head, s_.first_key);
    v_ = rows_of<T>(p_.v, s_.batch, kv_head, s_.first_key);
    if constexpr (kGates) gate_k_ = rows_of<T>(p_.cope.gate_k, s_.batch, kv_head, s_.first_key);
    mask_ = key_mask_of(p_, s_);
    __syncthreads();  // the strips may still be read for the block of rows before
    auto* strips = reinterpret_cast<float*>(smem_ + Layout::kStrips);
    for (int i = threadIdx.x; i < kStripsBytes / 4; i += 128) strips[i] = 0.0f;
  }

  __device__ void run() {
    const int rows = min(space_.chunk, s_.queries - space_.first_query);
    for_each_block((rows + 63) / 64, [&](int block) { run_block(block); });
  }

  // Of the launch's chunk.
  __device__ void run_block(int block) {
    query_ = space_.first_query + 64 * block;
    if (query_ >= s_.queries) return;
    tiles_ = kept_key_tiles(p_, s_, head_, query_, query_ + 63);
    start();
    if (has_cope()) find_carries();
    if (breaks_sticks()) find_sticks();
    walk_up(true, kGates && !walks_twice());
    if (b_.dtoken_queries != nullptr) store_row_sums(b_, s_, head_, query_, mine_, row_sums_);
    store();
    if (wants_fire()) finish_fire();
  }

 private:
  __device__ bool breaks_sticks() const { return kExtra && p_.breaks_sticks; }
  __device__ bool has_cope() const { return p_.cope.npos_max > 0; }
  __device__ bool has_relative() const { return kExtra && p_.relative.entries > 0; }
  __device__ bool has_plain() const { return has_cope() && p_.cope.plain_q.data != nullptr; }
  // Gates from other vectors need the plain queries, scores the rotated ones: where these
  // differ, there is one pass for each.
  __device__ bool walks_twice() const { return kGates && has_plain(); }

  __device__ void load_rows(const Tensor4& x, int to) { load_rows(x, to, p_.head_dim); }
  __device__ void load_rows(const Tensor4& x, int to, int dim) {
    __syncthreads();
    load_operand<Kind, kDim, false>(base_ + to, rows_of<T>(x, s_.batch, head_, s_.first_query),
                                    query_, s_.queries, dim);
    settle_copies();
  }

  __device__ void start() {
    chain_.start_rows(s_, query_);
    load_row_state(p_, space_.delta, s_, head_, query_, mine_, rows_);
    load_rows(b_.grad_out, Layout::kGradient);
    if (has_relative() && p_.relative.u.data != nullptr) {
      load_rows(p_.relative.u, 0, p_.relative.rank);
      start_relative();
    }
    load_rows(has_plain() ? p_.cope.plain_q : p_.q, 0);
    if (has_relative() && p_.relative.u.data == nullptr) start_relative();
    if (has_cope()) start_cope();
    if constexpr (kGates) load_rows(has_plain() ? p_.cope.plain_q : p_.q, Layout::kPlain);
    if (has_plain()) load_rows(p_.q, 0);
    if (wants_fire()) start_fire();
  }
  __device__ void start_cope() {
    const int stride = logit_stride(p_.cope.npos_max);
    float* tables = sums_.logits(query_);
    float* dtables = sums_.dlogits();
    fill_tables<Kind, kDim, 1>(CopeLogits{p_, head_}, base_, smem_ + Layout::kStaged, tables, 0);
    for (int i = threadIdx.x; i < 64 * stride; i += 128) dtables[i] = 0.0f;
    __syncthreads();
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int at = mine_.row[h] * stride;
      tables_.z[h] = tables + at;
      tables_.dz[h] = dtables + at;
      tables_.last[h] = tables_.z[h][p_.cope.npos_max - 1];
      prefix_[h] = 0.0f;
      saturated_sums_[h] = 0.0f;
    }
  }
  __device__ void start_relative() {
    const int stride = logit_stride(p_.relative.entries);
    float* tables = sums_.relative_tables();
    float* dtables = sums_.dlogits();
    fill_tables<Kind, kDim, 1>(RelativeLogits{p_, head_}, base_, smem_ + Layout::kStaged, tables,
                               0);
    for (int i = threadIdx.x; i < 64 * stride; i += 128) dtables[i] = 0.0f;
    __syncthreads();
#pragma unroll
    for (int h = 0; h < 2; ++h) tables_.dz[h] = dtables + mine_.row[h] * stride;
    chain_.read_relative(tables + mine_.row[0] * stride, tables + mine_.row[1] * stride);
    relative_.start(tables_.dz);
  }
  __device__ void start_fire() {
    const int entries = 2 * p_.fire.segments;
    float* rows = sums_.fire_rows();
    for (int i = threadIdx.x; i < 64 * entries; i += 128) rows[i] = 0.0f;
    __syncthreads();
#pragma unroll
    for (int h = 0; h < 2; ++h) fire_[h] = {rows + mine_.row[h] * entries, -1};
  }

  __device__ bool in_chunk(int h) const { return query_ + mine_.row[h] < s_.queries; }

  __device__ bool wants_fire() const { return p_.fire.segments > 0 && b_.dfire_rows != nullptr; }

  __device__ void load(const RowsOf<T>& rows, int key) {
    stage_.template load<Kind, kDim, true>(rows, key, s_.keys, p_.head_dim, [] {});
  }
  __device__ void load_with_windows(const RowsOf<T>& rows, int key) {
    stage_.template load<Kind, kDim, true>(rows, key, s_.keys, p_.head_dim, [&] {
      load_windows(base_ + Layout::kWindows, p_, head_, s_.place(query_), key, wants_fire());
    });
  }

  __device__ void find_carries() {
    std::uint32_t carry[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) carry[h] = in_chunk(h) ? 0 : chain_.cope().last;
    counting_ = tiles_.first;
#pragma unroll 1
    for (int tile = tiles_.end - 1; tile >= tiles_.first; --tile) {
      if (all_counted_in_group(chain_.cope(), carry, 0)) {
        counting_ = tile + 1;
        break;
      }
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        if (mine_.column == 0 && in_chunk(h)) *sums_.carry(tile, query_ + mine_.row[h]) = carry[h];
      }
      count_tile(tile * 64, carry);
    }
    if (threadIdx.x == 0) *sums_.first_counting(query_) = counting_;
  }
  __device__ void count_tile(int key, std::uint32_t (&carry)[2]) {
    load_with_windows(kGates ? gate_k_ : k_, key);  // gates may see biases
    Accum x;
    multiply_staged<Kind, kDim>(stage_, base_ + (kGates ? Layout::kPlain : 0), x);
    hide(s_, mask_, mine_, query_, key, x);
    Biases biases;
    chain_.read_biases(s_, query_, key, biases);
    count_gates(chain_.cope(), GeneralTerms<kGates>{chain_.cope(), biases, x}, x, carry);
  }

  // What is left of the rows' sticks as each tile begins; tiles of which nothing is left are not walked over.
  __device__ void find_sticks() {
    float left[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) left[h] = in_chunk(h) ? 0.0f : -INFINITY;
    counting_ = tiles_.first;
#pragma unroll 1
    for (int tile = tiles_.end - 1; tile >= tiles_.first; --tile) {
      if (__syncthreads_and(nothing_left(left)) != 0) {
        counting_ = tile + 1;
        break;
      }
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        if (mine_.column != 0 || !in_chunk(h)) continue;
        *sums_.carry(tile, query_ + mine_.row[h]) = __float_as_uint(left[h]);
      }
      break_tile(tile * 64, left);
    }
    if (threadIdx.x == 0) *sums_.first_counting(query_) = counting_;
    tiles_.first = counting_;
  }
  __device__ void break_tile(int key, float (&left)[2]) {
    load_with_windows(k_, key);
    Accum x;
    multiply_staged<Kind, kDim>(stage_, base_, x);
    Biases biases;
    chain_.read_biases(s_, query_, key, biases);
    const Seen seen = seen_of(s_, mask_, mine_, query_, key);
    break_sticks(GeneralSticks{p_.scale, biases, seen}, mine_.column, x, left);
  }

  // Accumulators of the loop: the gradient through the scores, and that through gates of other keys.
  __device__ void walk_up(bool scores, bool gates) {
#pragma unroll
    for (int d = 0; d < kParts; ++d) zero(dq_[d]);
    prefix_[0] = prefix_[1] = 0.0f;
    row_sums_[0] = row_sums_[1] = 0.0f;
#pragma unroll 1
    for (int tile = tiles_.first; tile < tiles_.end; ++tile) visit(tile, scores, gates);
  }

  __device__ void visit(int tile, bool scores, bool gates) {
    const int key = tile * 64;
    const bool counted = !has_cope() || tile < counting_;
    if (!scores && counted) return;  // gates of saturated keys ask nothing
    std::uint32_t carry[2] = {0, 0};
    if (!counted || breaks_sticks()) load_carries(tile, carry);
    Accum g;
    if constexpr (kGates) {
      if (!counted) {
        load(gate_k_, key);
        multiply_staged<Kind, kDim>(stage_, base_ + Layout::kPlain, g);
        hide(s_, mask_, mine_, query_, key, g);
      }
    }
    const Seen seen = seen_of(s_, mask_, mine_, query_, key);
    Accum y;
    load(v_, key);
    multiply_staged<Kind, kDim>(stage_, base_ + Layout::kGradient, y);
    Accum x;
    load_with_windows(k_, key);
    multiply_staged<Kind, kDim>(stage_, base_, x);
    replace_hidden(seen, -INFINITY, x);
    differentiate(key, scores, counted, seen, carry, g, x, y);
    if (b_.dtoken_queries != nullptr) add_row_sums(y, row_sums_);
    if (p_.softcap > 0.0f && has_cope() && counted) add_row_sums(y, saturated_sums_);
    FragmentsOf<Kind> left;
    if (scores) {
      leave_out(key, seen);
      to_fragments(y, left);
      add_product<Kind, kDim>(stage_, left, dq_);
    }
    if constexpr (kGates) {
      if (!gates || counted) return;
      load(gate_k_, key);
      leave_out(key, seen);
      to_fragments(g, left);
      add_product<Kind, kDim>(stage_, left, dq_);
    }
  }
  // Hidden keys of the staged ones.
  __device__ void leave_out(int key, const Seen& seen) {
    if (seen.all) return;
    const auto sees_row = [&](int h, int slot) {
      return sees(s_, mask_, query_ + mine_.row[h], key + key_of_slot(slot));
    };
    leave_hidden_out<Kind, kDim>(stage_, 0, mine_, sees_row, dq_);
  }
  __device__ void load_carries(int tile, std::uint32_t (&carry)[2]) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      carry[h] = breaks_sticks() ? __float_as_uint(-INFINITY) : chain_.cope().last;
      if (!in_chunk(h)) continue;
      carry[h] = *sums_.carry(tile, query_ + mine_.row[h]);
      if (mine_.column == 0) *sums_.prefix(tile, query_ + mine_.row[h]) = prefix_[h];
    }
  }

  // Parameter gradients are accumulated in the first pass.
  __device__ void differentiate(int key, bool first, bool counted, const Seen& seen,
                                const std::uint32_t (&carry)[2], Accum& g, Accum& x, Accum& y) {
    const Keep keep = keep_of(p_, s_, head_, query_, key, mine_);
    Biases biases;
    chain_.read_biases(s_, query_, key, biases);
    if constexpr (kGates) {
      if (!first) {
        general_backward<kGates, true>(chain_.cope(), chain_.softcap(), biases, counted, tables_,
                                       mine_.column, rows_, keep, seen, carry, prefix_, g, x, y);
        return;
      }
    }
    if (breaks_sticks()) {
      const float left[2] = {__uint_as_float(carry[0]), __uint_as_float(carry[1])};
      sticks_backward<false>(p_.scale, biases, mine_.column, rows_, keep, seen, left, prefix_, x,
                             y);
    } else {
      general_backward<kGates, false>(chain_.cope(), chain_.softcap(), biases, counted, tables_,
                                      mine_.column, rows_, keep, seen, carry, prefix_, g, x, y);
    }
    if (b_.dtoeplitz != nullptr) add_diagonals(key, x);
    if (wants_fire()) chain_.add_fire_gradient(x, fire_);
    if (has_relative()) relative_.add(p_.relative, s_.place(query_) - key, mine_, x);
  }
  __device__ void add_diagonals(int key, const Accum& x) {
    Diagonals diagonals(reinterpret_cast<float*>(smem_ + Layout::kStrips), mine_);
    float* table = sums_.dtoeplitz() + p_.toeplitz.zero;
    diagonals.add(x, 0, key / 64 % 2, table, -p_.toeplitz.zero, p_.toeplitz.span - p_.toeplitz.zero,
                  s_.place(query_) - key);
  }

  // Rows' sums for c and the threshold, and the segments' sums of all 64 rows.
  __device__ void finish_fire() {
    const int entries = 2 * p_.fire.segments;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      fire_[h].flush(mine_.column);
      const int query = query_ + mine_.row[h];
      if (mine_.column != 0 || query >= s_.queries) continue;
      const std::int64_t row =
          (static_cast<std::int64_t>(s_.batch) * p_.heads + head_) * p_.queries + s_.first_query +
          query;
      reinterpret_cast<float2*>(b_.dfire_rows)[row] = {fire_[h].dpsi, fire_[h].dscale};
    }
    __syncthreads();
    float* to = sums_.dfire_segments();
    for (int i = threadIdx.x; i < entries; i += 128) {
      float sum = 0.0f;
      for (int row = 0; row < 64; ++row) sum += sums_.fire_rows()[row * entries + i];
      to[i] += sum;
    }
    __syncthreads();
  }

  __device__ void store_queries(const Tensor4& to, float scale) const {
    store_queries(to, scale, p_.head_dim);
  }
  __device__ void store_queries(const Tensor4& to, float scale, int dim) const {
    store_rows<T>(to, dim, s_, head_, query_, mine_, dq_, {scale, scale});
  }
  __device__ void scale_queries() {
#pragma unroll
    for (int i = 0; i < kParts * 32; ++i) dq_[i / 32][i / 4 % 8][i % 4] *= p_.scale;
  }

  __device__ void store() {
    if (has_relative()) {
      store_relative();
      return;
    }
    if (!has_cope()) {
      store_queries(b_.dq, p_.scale);
      return;
    }
    const bool separate = has_plain() && (kGates || p_.cope.slopes == nullptr);
    if (separate) {
      store_queries(b_.dq, p_.scale);  // what is added from here on is of the plain queries
      if constexpr (kGates) {
        walk_up(false, true);
      } else {
#pragma unroll
        for (int d = 0; d < kParts; ++d) zero(dq_[d]);
      }
    }
    scale_queries();
    finish_tables();
    store_queries(separate ? b_.dplain_q : b_.dq, 1.0f);
  }
  // What is added after the walk is of u, which may be the queries themselves.
  __device__ void store_relative() {
    const bool separate = p_.relative.u.data != nullptr;
    if (separate) {
      store_queries(b_.dq, p_.scale);
      load_rows(p_.relative.u, 0, p_.relative.rank);
#pragma unroll
      for (int d = 0; d < kParts; ++d) zero(dq_[d]);
    } else {
      scale_queries();
    }
    relative_.finish(p_.relative, mine_);
    __syncthreads();
    const TableGradient<Kind, kDim, 1, RelativeLogits> tables(
        {p_, head_}, base_, smem_ + Layout::kStaged, 0, mine_, tables_.dz);
    tables.forget_unused_queries();
    publish_smem();
    for (int first = 0; first < p_.relative.entries; first += 64) {
      tables.add_to_queries(first, dq_);
      if (b_.drelative_table == nullptr) continue;
      tables.add_to_embedding(first, sums_.relative_gradient());
    }
    if (separate) {
      store_queries(b_.drelative_u, 1.0f, (p_.relative.rank + 7) / 8 * 8);
    } else {
      store_queries(b_.dq, 1.0f);
    }
  }
  __device__ void finish_tables() {
    const int plain = kGates ? Layout::kPlain : 0;
    if (!kGates && has_plain()) load_rows(p_.cope.plain_q, 0);
    const TableGradient<Kind, kDim, 1> tables({p_, head_}, base_ + plain, smem_ + Layout::kStaged,
                                              0, mine_, tables_.dz);
    settle(tables);
    __syncthreads();
    if (p_.cope.slopes != nullptr) {
      if (b_.dpos_emb != nullptr) tables.add_slopes(sums_.dembedding(4));
      return;
    }
    tables.forget_unused_queries();
    for (int first = 0; first < p_.cope.npos_max; first += 64) {
      tables.add_to_queries(first, dq_);
      if (b_.dpos_emb != nullptr) {
        tables.add_to_embedding(first, sums_.dembedding(p_.head_dim * p_.cope.npos_max));
      }
    }
  }

  // With a softcap a row's score gradients do not add up to nothing: those of saturated keys were added up.
  template <class Tables>
  __device__ void settle(const Tables& tables) const {
    const bool saturated = counting_ > tiles_.first;
    float extra[2] = {row_sum(saturated_sums_[0]), row_sum(saturated_sums_[1])};
    if (p_.softcap > 0.0f) {
      tables.settle(false, extra);
      return;
    }
    if (saturated) row_totals(p_, head_, rows_, extra);
    tables.settle(saturated, extra);
  }

  const AttentionBackwardParams& b_;
  const AttentionParams& p_;
  const BackwardSpace& space_;
  std::uint8_t* smem_;
  std::uint32_t base_;
  Sequence s_;
  int head_;
  ThreadRows mine_;
  Stage stage_;
  GeneralChain chain_;
  GeneralSums sums_;
  RowsOf<T> k_;
  RowsOf<T> v_;
  RowsOf<T> gate_k_;
  const std::uint8_t* mask_;
  int query_ = 0;
  Range tiles_{0, 0};
  int counting_ = 0;  // the first tile that is not saturated, or that something is left for
  RowState rows_;
  GeneralTables tables_{};
  float prefix_[2];
  float row_sums_[2];                       // over keys, of a term per token
  float saturated_sums_[2] = {0.0f, 0.0f};  // over saturated keys, with a softcap
  FireRowSums fire_[2];
  RelativeGradient relative_;
  Accum dq_[kParts];
};

template <class Kind, int kDim, bool kGates, bool kExtra>
__global__ void __launch_bounds__(128, kDim == 64 ? 2 : 1)
    general_query_kernel(const __grid_constant__ AttentionBackwardParams b,
                         const __grid_constant__ BackwardSpace space) {
  extern __shared__ std::uint8_t raw_smem[];
  GeneralQuery<Kind, kDim, kGates, kExtra>(b, space, aligned_smem(raw_smem), blockIdx.z, blockIdx.y)
      .run();
}

template <class Kind, int kDim, bool kExtra>
__global__ void __launch_bounds__(128)
    recheck_query_kernel(const __grid_constant__ AttentionBackwardParams b,
                         const __grid_constant__ BackwardSpace space,
                         const __grid_constant__ MarkedBlocks list) {
  extern __shared__ std::uint8_t raw_smem[];
  std::uint8_t* smem = aligned_smem(raw_smem);
  for (MarkedWork work(list); work.next();) {
    GeneralQuery<Kind, kDim, false, kExtra>(b, space, smem, work.sequence, work.head)
        .run_block(work.block);
  }
}

}  // namespace posenc::cuda
