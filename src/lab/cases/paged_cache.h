// The cache of a case in pages: pools, and a table that shuffles their pages.
#pragma once

#include "cases/tensor.h"
#include "posenc/kernels/attention.h"

namespace posenc::cases {

struct AttentionData;

// Pools are [pages, page, heads, channels] where the case orders tokens first, as vLLM does, or else [pages, heads,
// page, channels]. All that the table does not name is NaN: other pages, and the end of the last page.
class PagedCache {
 public:
  // `tokens`: how many of each batch entry are in the cache, the first ones of the tensors.
  PagedCache(AttentionData& data, std::int64_t page, std::vector<std::int64_t> tokens);

  // Replaces the tensors of a call by pools.
  void put_into(AttentionCall& call);

  std::int64_t pool_pages = 0;
  std::vector<std::int32_t> pages;  // [batch, blocks]
  std::vector<std::int64_t> lengths;
  Tensor k, v, k_scales, v_scales;
  std::vector<Tensor> inputs;

 private:
  Tensor pool_of(Tensor& rows) const;

  std::int64_t page_;
  std::int64_t blocks_ = 0;
  Order order_;
  std::vector<ConstTensorView> input_views_;
};

}  // namespace posenc::cases
