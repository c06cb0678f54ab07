// Attention backward for dk, dv and gate keys, for every element type and chain: a warpgroup owns 64 keys and loops over all
// queries that attend to them, of every query head that shares the key head, in a fixed order. Like backward_key.cuh, with
// one operand of the queries at a time in shared memory.
#pragma once

#include "kernels/cuda/device/backward_key_walk.cuh"
#include "kernels/cuda/device/general_block.cuh"
#include "kernels/cuda/device/hidden_rows.cuh"
#include "kernels/cuda/device/relative_window.cuh"
#include "kernels/cuda/device/sticks.cuh"

namespace posenc::cuda {

template <class Kind, int kDim, bool kGates>
struct GeneralKeyLayout {
  static constexpr int kValues = kOperandBytes<Kind, kDim>;
  static constexpr int kGateKeys = kValues + kOperandBytes<Kind, kDim>;
  static constexpr int kStaged = kGateKeys + (kGates ? kOperandBytes<Kind, kDim> : 0);
  static constexpr int kWeights = kStaged + kOperandBytes<Kind, kDim>;
  static constexpr int kWindows = kWeights + Planes<Kind>::kCount * kTileBytes;
  static constexpr int kTokens = kWindows + 2 * kGeneralWindow;  // [4 warps][64 keys]
  static constexpr int kRelative = kTokens + 4 * 64 * 4;
  static constexpr int kBytes = 1024 + kRelative;
  // Of a call with queries times distances.
  static constexpr int kBytesWithRelative = kBytes + RelativeWindow<Kind, kDim>::kBytes;
};

// Parts of 64 channels of the gradients that a block of threads holds.
constexpr int general_key_parts(int dim, bool gates) { return dim == 64 || gates ? 1 : 2; }

template <class Kind, int kDim, bool kGates, bool kExtra>
class GeneralKey {
  using Layout = GeneralKeyLayout<Kind, kDim, kGates>;
  using T = ElementOf<Kind>;
  using M = MmaOf<Kind>;
  static constexpr int kCount = Planes<Kind>::kCount;
  static constexpr int kParts = kDim / 64;
  static constexpr int kOutParts = general_key_parts(kDim, kGates);
  enum class Rows { kNone, kQueries, kPlain, kGradients, kRelative };

 public:
  __device__ GeneralKey(const AttentionBackwardParams& b, const BackwardSpace& space,
                        std::uint8_t* smem, int sequence, int kv_head)
      : walk_(b, space, sequence, kv_head),
        p_(b.forward),
        smem_(smem),
        base_(smem_address(smem)),
        stage_(base_ + Layout::kStaged) {
    mask_ = key_mask_of(p_, walk_.s);
  }

  // 64 keys, and a share of the channels of their gradients.
  __device__ void run_block(int block) {
    constexpr int kShares = kParts / kOutParts;
    first_part_ = block % kShares * kOutParts;
    walk_.begin(block / kShares * 64, 64);
    if (walk_.is_idle()) return;
    __syncthreads();
#pragma unroll
    for (int d = 0; d < kOutParts; ++d) {
      zero(dk_[d]);
      zero(dv_[d]);
      if constexpr (kGates) zero(dgates_[d]);
    }
    load_own();
    if (wants_tokens()) clear_tokens();
    const int first = walk_.kv_head * walk_.heads;
#pragma unroll 1
    for (int head = first; head < first + walk_.heads; ++head) {
      GeneralChain chain(p_, head, reinterpret_cast<const float*>(smem_ + Layout::kWindows), mine_);
#pragma unroll 1
      for (int tile = walk_.tiles.first; tile < walk_.tiles.end; ++tile) visit(chain, head, tile);
      if (wants_tokens()) store_tokens(head);
    }
    store(walk_.b.dk, walk_.space.dk, dk_, p_.scale);
    store(walk_.b.dv, walk_.space.dv, dv_, 1.0f);
    if constexpr (kGates) store(walk_.b.dgate_k, walk_.space.dgate_k, dgates_, p_.scale);
  }

 private:
  __device__ bool breaks_sticks() const { return kExtra && p_.breaks_sticks; }
  __device__ void load_own() {
    const auto load = [&](const Tensor4& x, int to) {
      load_operand<Kind, kDim, true>(base_ + to,
                                     rows_of<T>(x, walk_.s.batch, walk_.kv_head, walk_.s.first_key),
                                     walk_.first_key, walk_.s.keys, p_.head_dim);
    };
    load(p_.k, 0);
    load(p_.v, Layout::kValues);
    if constexpr (kGates) load(p_.cope.gate_k, Layout::kGateKeys);
    copies_commit();
  }

  // Rows of queries into shared memory, unless they are there.
  __device__ void need(Rows rows, int head, int query) {
    if (rows == Rows::kPlain && p_.cope.plain_q.data == nullptr) rows = Rows::kQueries;
    if (rows == Rows::kRelative && p_.relative.u.data == nullptr) rows = Rows::kQueries;
    if (rows == staged_) return;
    staged_ = rows;
    const Tensor4& x = rows == Rows::kQueries    ? p_.q
                       : rows == Rows::kPlain    ? p_.cope.plain_q
                       : rows == Rows::kRelative ? p_.relative.u
                                                 : walk_.b.grad_out;
    const int dim = rows == Rows::kRelative ? p_.relative.rank : p_.head_dim;
    stage_.template load<Kind, kDim, false>(rows_of<T>(x, walk_.s.batch, head, walk_.s.first_query),
                                            query, walk_.s.queries, dim, [] {});
  }

  // Of the staged rows with own keys or values.
  __device__ void multiply_own(int own, Accum& x) {
    zero(x);
    mma_begin();
#pragma unroll
    for (int d = 0; d < kParts; ++d) {
      multiply_planes<M, kCount, kCount, false, false>(
          x, stage_.address() + d * kTileBytes, kPlaneBytes<kDim>, base_ + own + d * kTileBytes,
          kPlaneBytes<kDim>);
    }
    mma_commit();
    mma_wait();
    pin(x);
  }

  // to += x^T rows, for this block's channels of the staged rows.
  __device__ void add_staged(Accum& x, Accum (&to)[kOutParts]) {
    const std::uint32_t weights = base_ + Layout::kWeights;
    __syncthreads();
    store_tiles<M, kCount>(smem_ + Layout::kWeights, mine_, x);
    publish_smem();
    __syncthreads();
    add_rows_product<M, kCount>(to, weights, stage_.address() + first_part_ * kTileBytes,
                                kPlaneBytes<kDim>);
  }

  __device__ void visit(GeneralChain& chain, int head, int tile) {
    const int query = tile * 64;
    if (breaks_sticks() && walk_.first_key / 64 < walk_.first_counting(tile, head)) return;
    staged_ = Rows::kNone;
    chain.start_rows(walk_.s, query);
    const bool counts = load_sums(chain.cope(), head, tile);
    load_windows(base_ + Layout::kWindows, p_, head, walk_.s.place(query), walk_.first_key, false);
    Accum gates;
    if constexpr (kGates) {
      if (counts) {
        need(Rows::kPlain, head, query);
        multiply_own(Layout::kGateKeys, gates);
        hide(walk_.s, mask_, mine_, query, walk_.first_key, gates);
      }
    }
    if (has_relative()) fill_relative(head, query);
    const Seen seen = seen_of(walk_.s, mask_, mine_, query, walk_.first_key);
    Accum x;
    need(Rows::kQueries, head, query);
    multiply_own(0, x);
    replace_hidden(seen, -INFINITY, x);
    Accum y;
    need(Rows::kGradients, head, query);
    multiply_own(Layout::kValues, y);
    differentiate(chain, head, query, counts, seen, gates, x, y);
    if (wants_tokens()) add_tokens(y);
    leave_out(query, seen, dv_);
    add_staged(x, dv_);
    need(Rows::kQueries, head, query);
    leave_out(query, seen, dk_);
    add_staged(y, dk_);
    if constexpr (kGates) {
      if (!counts) return;
      need(Rows::kPlain, head, query);
      leave_out(query, seen, dgates_);
      add_staged(gates, dgates_);
    }
  }
  __device__ bool has_relative() const { return kExtra && p_.relative.entries > 0; }
  __device__ RelativeWindow<Kind, kDim> relative_window() const {
    return {smem_ + Layout::kRelative, smem_ + Layout::kWeights, mine_};
  }
  // Products of the tile's queries with its distances, where these have entries.
  __device__ void fill_relative(int head, int query) {
    const int distance = walk_.s.place(query) - walk_.first_key;
    const RelativeEntries entries(p_.relative);
    if (!entries.reaches(distance - 63, distance + 63)) return;
    need(Rows::kRelative, head, query);
    relative_window().fill(RelativeLogits{p_, head}, entries, distance, stage_);
  }
  // The gradient of the keys' parts: each warp sums over its rows, tile by tile.
  __device__ bool wants_tokens() const {
    return p_.tokens.at_key != nullptr && walk_.b.dtoken_keys != nullptr;
  }
  __device__ float* token_sums() const { return reinterpret_cast<float*>(smem_ + Layout::kTokens); }
  __device__ void clear_tokens() {
    for (int i = threadIdx.x; i < 4 * 64; i += 128) token_sums()[i] = 0.0f;
  }
  __device__ void add_tokens(const Accum& ds) {
    float* own = token_sums() + threadIdx.x / 32 * 64 + 16 * mine_.column;
#pragma unroll
    for (int j = 0; j < 16; ++j) {
      const float sum = sum_over_rows(ds, j);
      if (mine_.lane < 4) own[j] += sum;
    }
  }
  __device__ void store_tokens(int head) {
    __syncthreads();
    const int key = static_cast<int>(threadIdx.x);
    if (key < 64 && walk_.first_key + key < walk_.s.keys && first_part_ == 0) {
      const float* sums = token_sums() + key;
      walk_.token_gradients(head)[walk_.first_key + key] =
          (sums[0] + sums[64]) + (sums[128] + sums[192]);
    }
    __syncthreads();
    clear_tokens();
    __syncthreads();
  }
  // Of the staged rows those that do not see a key.
  __device__ void leave_out(int query, const Seen& seen, Accum (&to)[kOutParts]) {
    if (seen.all) return;
    const auto sees_row = [&](int h, int row) {
      return sees(walk_.s, mask_, query + row, walk_.first_key + key_of_slot(mine_.row[h]));
    };
    leave_hidden_out<Kind, kDim>(stage_, first_part_, mine_, sees_row, to);
  }

  __device__ void differentiate(GeneralChain& chain, int head, int query, bool counts,
                                const Seen& seen, Accum& gates, Accum& x, Accum& y) {
    RowState rows;
    load_row_state(p_, walk_.space.delta, walk_.s, head, query, mine_, rows);
    const Keep keep = keep_of(p_, walk_.s, head, query, walk_.first_key, mine_);
    Biases biases;
    chain.read_biases(walk_.s, query, walk_.first_key, biases);
    if (has_relative()) {
      relative_window().add(RelativeEntries(p_.relative), walk_.s.place(query) - walk_.first_key,
                            biases);
    }
    if (breaks_sticks()) {
      const float left[2] = {__uint_as_float(carry_[0]), __uint_as_float(carry_[1])};
      sticks_backward<true>(p_.scale, biases, mine_.column, rows, keep, seen, left, prefix_, x, y);
      return;
    }
    general_backward<kGates, true>(chain.cope(), chain.softcap(), biases, !counts, tables_,
                                   mine_.column, rows, keep, seen, carry_, prefix_, gates, x, y);
  }

  // What the queries' kernel has kept for this tile; whether CoPE counts here.
  __device__ bool load_sums(const LongCopeScores& cope, int head, int tile) {
    if (breaks_sticks()) load_sticks(head, tile);
    if (p_.cope.npos_max == 0) return false;
    const BackwardSpace& space = walk_.space;
    const int stride = logit_stride(p_.cope.npos_max);
    const bool counts = walk_.first_key / 64 >= walk_.first_counting(tile, head);
    const std::int64_t sums = walk_.sums_at(tile, head, walk_.first_key);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const bool real = counts && tile * 64 + mine_.row[h] < walk_.s.queries;
      tables_.z[h] = walk_.logits_of(tile, head) + mine_.row[h] * stride;
      tables_.last[h] = tables_.z[h][p_.cope.npos_max - 1];
      carry_[h] = real ? space.carries[sums + mine_.row[h]] : cope.last;
      prefix_[h] = real ? space.prefixes[sums + mine_.row[h]] : 0.0f;
    }
    return counts;
  }

  __device__ void load_sticks(int head, int tile) {
    const std::int64_t sums = walk_.sums_at(tile, head, walk_.first_key);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const bool real = tile * 64 + mine_.row[h] < walk_.s.queries;
      carry_[h] = real ? walk_.space.carries[sums + mine_.row[h]] : __float_as_uint(-INFINITY);
      prefix_[h] = real ? walk_.space.prefixes[sums + mine_.row[h]] : 0.0f;
    }
  }

  __device__ void store(const Tensor4& to, float* sums, const Accum (&from)[kOutParts],
                        float scale) const {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int key = walk_.first_key + key_of_slot(mine_.row[h]);
      walk_.template store<T>(to, sums, key, from, scale, h, mine_.column, first_part_);
    }
  }

  KeyWalk walk_;
  const AttentionParams& p_;
  std::uint8_t* smem_;
  std::uint32_t base_;
  ThreadRows mine_;
  Stage stage_;
  Rows staged_ = Rows::kNone;
  int first_part_;
  const std::uint8_t* mask_;
  GeneralTables tables_{};
  std::uint32_t carry_[2] = {0, 0};
  float prefix_[2] = {0.0f, 0.0f};
  Accum dk_[kOutParts];
  Accum dv_[kOutParts];
  Accum dgates_[kGates ? kOutParts : 1];
};

template <class Kind, int kDim, bool kGates, bool kExtra>
__global__ void __launch_bounds__(128, kDim == 64 ? 2 : 1)
    general_key_kernel(const __grid_constant__ AttentionBackwardParams b,
                       const __grid_constant__ BackwardSpace space) {
  extern __shared__ std::uint8_t raw_smem[];
  GeneralKey<Kind, kDim, kGates, kExtra>(b, space, aligned_smem(raw_smem), blockIdx.z, blockIdx.y)
      .run_block(static_cast<int>(blockIdx.x));
}

template <class Kind, int kDim, bool kExtra>
__global__ void __launch_bounds__(128)
    recheck_key_kernel(const __grid_constant__ AttentionBackwardParams b,
                       const __grid_constant__ BackwardSpace space,
                       const __grid_constant__ MarkedBlocks list) {
  extern __shared__ std::uint8_t raw_smem[];
  std::uint8_t* smem = aligned_smem(raw_smem);
  for (MarkedWork work(list); work.next();) {
    GeneralKey<Kind, kDim, false, kExtra>(b, space, smem, work.sequence, work.head)
        .run_block(work.block);
  }
}

}  // namespace posenc::cuda
