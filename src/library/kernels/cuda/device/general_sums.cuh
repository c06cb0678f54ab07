// Where the general backward keeps its sums in the workspace, for one head of one sequence.
#pragma once

#include "kernels/cuda/device/backward_space.cuh"
#include "kernels/cuda/device/general_block.cuh"

namespace posenc::cuda {

class GeneralSums {
 public:
  __device__ GeneralSums(const BackwardSpace& space, const AttentionParams& p, int sequence,
                         int head)
      : space_(space), p_(p), sequence_(sequence), head_(head) {
    row_ = static_cast<std::int64_t>(sequence) * p.heads + head;
  }

  // Of a tile of keys, for a query of the chunk.
  __device__ std::uint32_t* carry(int tile, int query) const {
    return space_.carries + at(tile, query);
  }
  __device__ float* prefix(int tile, int query) const { return space_.prefixes + at(tile, query); }
  __device__ int* first_counting(int query) const {
    return space_.first_counting + row_ * (space_.chunk / 64) + (query - space_.first_query) / 64;
  }
  // Logits of the rows from `query` on.
  __device__ float* logits(int query) const {
    return space_.logits +
           (row_ * space_.chunk + query - space_.first_query) * logit_stride(p_.cope.npos_max);
  }

  // This block's own.
  __device__ float* dlogits() const {
    return space_.dlogits + block_slot() * 64 * table_stride(p_);
  }
  __device__ float* relative_tables() const {
    return space_.relative_tables + block_slot() * 64 * table_stride(p_);
  }
  // Added up over everything that shares a table: of all heads, or of one.
  __device__ float* relative_gradient() const {
    const RelativeTable& table = p_.relative;
    const std::int64_t block = table.head_stride != 0 ? partial() : block_slot();
    return space_.dembedding + block * table.rank * table.entries;
  }
  __device__ float* dembedding(int entries) const {
    return space_.dembedding + block_slot() * entries;
  }
  __device__ float* dtoeplitz() const { return space_.dtoeplitz + partial() * p_.toeplitz.span; }
  __device__ float* fire_rows() const {
    return space_.fire_rows + block_slot() * 128 * p_.fire.segments;
  }
  __device__ float* dfire_segments() const {
    return space_.dfire_segments + partial() * 2 * p_.fire.segments;
  }

 private:
  __device__ std::int64_t at(int tile, int query) const {
    return (row_ * space_.key_tiles + tile) * space_.chunk + query - space_.first_query;
  }
  // Partial sums that are added up over sequences and slots: heads lie innermost.
  __device__ std::int64_t partial() const {
    return (static_cast<std::int64_t>(sequence_) * gridDim.x + blockIdx.x) * p_.heads + head_;
  }

  const BackwardSpace& space_;
  const AttentionParams& p_;
  int sequence_;
  int head_;
  std::int64_t row_;
};

}  // namespace posenc::cuda
