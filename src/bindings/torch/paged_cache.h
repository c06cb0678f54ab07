// Paged caches as tensors: pools [blocks, page, heads, channels], a block table and the length of each sequence.
#pragma once

#include "torch/attention_arguments.h"

namespace posenc::ops {

// Throws where the table or the lengths have another shape or type.
void check_cache_tables(const at::Tensor& q, const CacheTensors& cache);

// The table and the lengths of a call, on the host; a GPU that holds them is waited for.
class HostTable {
 public:
  HostTable() = default;
  HostTable(const at::Tensor& q, const CacheTensors& cache);

  [[nodiscard]] bool given() const { return pages_.defined(); }
  // For pools with pages of so many tokens.
  [[nodiscard]] BlockTable of_pages(std::int64_t page) const;
  [[nodiscard]] std::int64_t longest() const { return of_pages(1).longest(); }
  [[nodiscard]] const std::vector<std::int64_t>& lengths() const { return lengths_; }

 private:
  at::Tensor pages_;  // int32 [B, blocks], contiguous
  std::vector<std::int64_t> lengths_;
};

// A pool as kernels view it, [blocks, heads, page, channels], without a copy.
at::Tensor pool_of(const char* name, const at::Tensor& pool);
// What has the shape of the keys without pages, [B, Hkv, Tk, D], and no memory: for checks of masks and positions.
at::Tensor shape_of_keys(const at::Tensor& q, const at::Tensor& k_pool, const HostTable& table);

// Throws unless x is a pool with the pages of k on the device of q.
void check_pool(const char* name, const at::Tensor& x, const at::Tensor& k, const at::Tensor& q);

// Pages gathered into contiguous tensors, then attention as without pages: one call for the sequences of each length.
at::Tensor gathered_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              const CacheTensors& cache, const at::Tensor& parameters,
                              POSENC_ATTENTION_PARAMETERS);

}  // namespace posenc::ops
