// Attention forward for every element type and chain: a warpgroup owns 64 queries and processes one tile of keys at a time,
// loading one operand after the other into the same shared memory. Several thread blocks per SM hide the latency.
#pragma once

#include "kernels/cuda/device/embedding.cuh"
#include "kernels/cuda/device/general_block.cuh"
#include "kernels/cuda/device/hidden_rows.cuh"
#include "kernels/cuda/device/output.cuh"
#include "kernels/cuda/device/sticks.cuh"

namespace posenc::cuda {

// kGates: CoPE's gates come from a separate product. Below, kExtra: stick-breaking or queries times distances.
template <class Kind, int kDim, bool kGates>
struct GeneralForwardLayout {
  static constexpr int kPlain = kOperandBytes<Kind, kDim>;  // plain queries, for the gates
  static constexpr int kStaged = kPlain + (kGates ? kOperandBytes<Kind, kDim> : 0);
  static constexpr int kWindows = kStaged + kStagedBytes<Kind, kDim>;
  static constexpr int kBytes = 1024 + kWindows + 2 * kGeneralWindow;
};

template <class Kind, int kDim, bool kGates, bool kExtra>
class GeneralForward {
  using Layout = GeneralForwardLayout<Kind, kDim, kGates>;
  using T = ElementOf<Kind>;
  static constexpr int kParts = kDim / 64;

 public:
  __device__ GeneralForward(const AttentionParams& p, std::uint8_t* smem, int sequence, int head)
      : p_(p),
        smem_(smem),
        base_(smem_address(smem)),
        s_(sequence_of(p, sequence)),
        head_(head),
        stage_(base_ + Layout::kStaged),
        chain_(p, head_, reinterpret_cast<const float*>(smem + Layout::kWindows), mine_) {
    const int kv_head = head_ / (p_.heads / p_.kv_heads);
    k_ = rows_of<T>(p_.k, s_.batch, kv_head, s_.first_key);
    v_ = rows_of<T>(p_.v, s_.batch, kv_head, s_.first_key);
    if constexpr (kGates) gate_k_ = rows_of<T>(p_.cope.gate_k, s_.batch, kv_head, s_.first_key);
    mask_ = key_mask_of(p_, s_);
  }

  __device__ void run() {
    for_each_block((s_.queries + 63) / 64, [&](int block) { run_block(64 * block); });
  }

  __device__ void run_block(int query) {
    if (query >= s_.queries) return;
    query_ = query;
    softmax_ = OnlineSoftmax{};
    has_keys_[0] = has_keys_[1] = 0;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      left_[h] = query_ + mine_.row[h] < s_.queries ? 0.0f : -INFINITY;
    }
#pragma unroll
    for (int d = 0; d < kParts; ++d) zero(out_[d]);
    start();
    const Range tiles = kept_key_tiles(p_, s_, head_, query_, query_ + 63);
#pragma unroll 1
    for (int tile = tiles.end - 1; tile >= tiles.first; --tile) {
      if (breaks_sticks() && __syncthreads_and(nothing_left(left_)) != 0) break;
      visit(tile * 64);
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      has_keys_[h] |= __shfl_xor_sync(~0u, has_keys_[h], 1);
      has_keys_[h] |= __shfl_xor_sync(~0u, has_keys_[h], 2);
    }
    if (breaks_sticks()) {
      store_sticks();
      return;
    }
    float nothing[2];  // no weight at all, though there are keys: their scores overflowed
#pragma unroll
    for (int h = 0; h < 2; ++h) nothing[h] = has_keys_[h] != 0 ? NAN : 0.0f;
    store_output<T>(p_, s_, head_, query_, mine_, softmax_, kLog2e, out_, nothing);
  }

 private:
  __device__ bool breaks_sticks() const { return kExtra && p_.breaks_sticks; }
  __device__ void load_queries(const Tensor4& x, int to, int dim) {
    __syncthreads();
    load_operand<Kind, kDim, false>(base_ + to, rows_of<T>(x, s_.batch, head_, s_.first_query),
                                    query_, s_.queries, dim);
    settle_copies();
  }

  __device__ void start() {
    chain_.start_rows(s_, query_);
    const bool has_cope = p_.cope.npos_max > 0;
    const Tensor4& plain = has_cope && p_.cope.plain_q.data != nullptr ? p_.cope.plain_q : p_.q;
    const bool has_relative = kExtra && p_.relative.entries > 0;
    if (has_relative && p_.relative.u.data != nullptr) {
      load_queries(p_.relative.u, 0, p_.relative.rank);
      start_relative();
    }
    load_queries(plain, 0, p_.head_dim);
    if (has_relative && p_.relative.u.data == nullptr) start_relative();
    if (has_cope) start_cope();
    if constexpr (kGates) load_queries(plain, Layout::kPlain, p_.head_dim);
    if (plain.data != p_.q.data) load_queries(p_.q, 0, p_.head_dim);
    counted_ = !has_cope;
  }
  __device__ void start_cope() {
    const int stride = logit_stride(p_.cope.npos_max);
    float* tables = static_cast<float*>(p_.workspace) + block_slot() * 64 * stride;
    fill_tables<Kind, kDim, 1>(CopeLogits{p_, head_}, base_, smem_ + Layout::kStaged, tables, 0);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      z_[h] = tables + mine_.row[h] * stride;
      last_[h] = z_[h][p_.cope.npos_max - 1];
      carry_[h] = query_ + mine_.row[h] < s_.queries ? 0 : chain_.cope().last;
    }
  }

  __device__ void start_relative() {
    const int stride = logit_stride(p_.relative.entries);
    float* tables = static_cast<float*>(p_.workspace) + block_slot() * 64 * stride;
    fill_tables<Kind, kDim, 1>(RelativeLogits{p_, head_}, base_, smem_ + Layout::kStaged, tables,
                               0);
    chain_.read_relative(tables + mine_.row[0] * stride, tables + mine_.row[1] * stride);
  }

  __device__ void visit(int key) {
    if (!counted_) counted_ = all_counted_in_group(chain_.cope(), carry_, 0);
    Accum gates;
    if constexpr (kGates) {
      if (!counted_) {
        stage_.template load<Kind, kDim, true>(gate_k_, key, s_.keys, p_.head_dim, [] {});
        multiply_staged<Kind, kDim>(stage_, base_ + Layout::kPlain, gates);
        hide(s_, mask_, mine_, query_, key, gates);
      }
    }
    stage_.template load<Kind, kDim, true>(k_, key, s_.keys, p_.head_dim, [&] {
      load_windows(base_ + Layout::kWindows, p_, head_, s_.place(query_), key, false);
    });
    Accum x;
    multiply_staged<Kind, kDim>(stage_, base_, x);
    const Seen seen = seen_of(s_, mask_, mine_, query_, key);
#pragma unroll
    for (int h = 0; h < 2; ++h) has_keys_[h] |= seen.bits[h];
    replace_hidden(seen, -INFINITY, x);
    Biases biases;
    chain_.read_biases(s_, query_, key, biases);
    if (breaks_sticks()) {
      break_sticks(GeneralSticks{p_.scale, biases, seen}, mine_.column, x, left_);
    } else {
      finish_general<kGates>(chain_.cope(), chain_.softcap(), biases, gates, counted_, z_, last_,
                             mine_.column, seen, x, carry_);
      float shrink[2];
      softmax_.exponentiate(x, kLog2e, shrink);
#pragma unroll
      for (int i = 0; i < kParts * 32; ++i) out_[i / 32][i / 4 % 8][i % 4] *= shrink[i / 2 % 2];
    }
    add_output(key, seen.all, x);
  }

  // x: weights.
  __device__ void add_output(int key, bool sees_all, Accum& x) {
    if (p_.dropout_threshold != 0) drop_weights(p_, s_, head_, query_, key, mine_, x);
    stage_.template load<Kind, kDim, true>(v_, key, s_.keys, p_.head_dim, [] {});
    if (!sees_all) {
      const auto sees_row = [&](int h, int slot) {
        return sees(s_, mask_, query_ + mine_.row[h], key + key_of_slot(slot));
      };
      leave_hidden_out<Kind, kDim>(stage_, 0, mine_, sees_row, out_);
    }
    FragmentsOf<Kind> weights;
    to_fragments(x, weights);
    add_product<Kind, kDim>(stage_, weights, out_);
  }

  __device__ void store_sticks() const {
    const float keep = p_.dropout_threshold != 0 ? p_.dropout_scale : 1.0f;
    store_rows<T>(p_.out, p_.head_dim, s_, head_, query_, mine_, out_, {keep, keep});
    float lse[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) lse[h] = has_keys_[h] != 0 ? kLn2 * left_[h] : -INFINITY;
    store_row_numbers(p_, s_, head_, query_, mine_, lse);
  }

  const AttentionParams& p_;
  std::uint8_t* smem_;
  std::uint32_t base_;
  Sequence s_;
  int head_;
  ThreadRows mine_;
  Stage stage_;
  GeneralChain chain_;
  RowsOf<T> k_;
  RowsOf<T> v_;
  RowsOf<T> gate_k_;
  const std::uint8_t* mask_;
  int query_ = 0;
  const float* z_[2] = {nullptr, nullptr};
  float last_[2] = {0.0f, 0.0f};
  std::uint32_t carry_[2] = {0, 0};
  bool counted_ = false;  // CoPE, if any, only adds constants
  std::uint32_t has_keys_[2] = {0, 0};
  float left_[2] = {0.0f, 0.0f};  // of the rows' sticks, as exponents of two
  Accum out_[kParts];
  OnlineSoftmax softmax_;
};

template <class Kind, int kDim, bool kGates, bool kExtra>
__global__ void __launch_bounds__(128, kDim == 64    ? 3
                                       : kDim == 128 ? 2
                                                     : 1)
    general_forward_kernel(const __grid_constant__ AttentionParams p) {
  extern __shared__ std::uint8_t raw_smem[];
  GeneralForward<Kind, kDim, kGates, kExtra>(p, aligned_smem(raw_smem), blockIdx.z, blockIdx.y)
      .run();
}

template <class Kind, int kDim, bool kExtra>
__global__ void __launch_bounds__(128)
    recheck_forward_kernel(const __grid_constant__ AttentionParams p,
                           const __grid_constant__ MarkedBlocks list) {
  extern __shared__ std::uint8_t raw_smem[];
  std::uint8_t* smem = aligned_smem(raw_smem);
  for (MarkedWork work(list); work.next();) {
    GeneralForward<Kind, kDim, false, kExtra>(p, smem, work.sequence, work.head)
        .run_block(64 * work.block);
  }
}

}  // namespace posenc::cuda
