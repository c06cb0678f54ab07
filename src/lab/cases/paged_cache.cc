#include "cases/paged_cache.h"

#include <limits>
#include <numeric>

#include "cases/attention_data.h"

namespace posenc::cases {
namespace {

constexpr std::int64_t kSparePages = 3;

std::vector<std::int32_t> shuffled(std::int64_t count, std::uint64_t seed) {
  std::vector<std::int32_t> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  Rng rng(seed);
  for (std::int64_t n = count; n-- > 1;) std::swap(all[n], all[rng.integer(0, n)]);
  return all;
}

}  // namespace

PagedCache::PagedCache(AttentionData& data, std::int64_t page, std::vector<std::int64_t> tokens)
    : lengths(std::move(tokens)),
      page_(page),
      order_(data.c.order == Order::kTokensFirst ? Order::kTokensFirst : Order::kDense) {
  const auto batch = std::ssize(lengths);
  for (const std::int64_t n : lengths) blocks_ = std::max(blocks_, (n + page - 1) / page);
  pool_pages = batch * blocks_ + kSparePages;
  pages = shuffled(pool_pages, data.c.seed);
  pages.resize(static_cast<std::size_t>(batch * blocks_));
  k = pool_of(data.k);
  v = pool_of(data.v);
  if (data.c.cache_dtype == DType::kInt8) {
    k_scales = pool_of(data.k_scales);
    v_scales = pool_of(data.v_scales);
  }
  for (Tensor& input : data.inputs) inputs.push_back(pool_of(input));
  // Entries that no token needs.
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t n = (lengths[b] + page - 1) / page; n < blocks_; ++n) {
      pages[b * blocks_ + n] = std::numeric_limits<std::int32_t>::min();
    }
  }
}

Tensor PagedCache::pool_of(Tensor& rows) const {
  const TensorView from = rows.view();
  Tensor pool({pool_pages, from.heads(), page_, from.channels()}, from.dtype, order_);
  pool.fill(NAN);
  const TensorView to = pool.view();
  const auto bytes = static_cast<std::size_t>(from.channels()) * dtype_size(from.dtype);
  for (std::int64_t b = 0; b < std::ssize(lengths); ++b) {
    for (std::int64_t t = 0; t < lengths[b]; ++t) {
      const std::int64_t page = pages[b * blocks_ + t / page_];
      for (std::int64_t h = 0; h < from.heads(); ++h) {
        std::memcpy(static_cast<std::byte*>(to.data) + to.row_offset(page, h, t % page_),
                    static_cast<const std::byte*>(from.data) + from.row_offset(b, h, t), bytes);
      }
    }
  }
  return pool;
}

void PagedCache::put_into(AttentionCall& call) {
  call.k = k.view();
  call.v = v.view();
  if (call.k_scales.present()) call.k_scales = k_scales.view();
  if (call.v_scales.present()) call.v_scales = v_scales.view();
  input_views_.clear();
  for (Tensor& input : inputs) input_views_.emplace_back(input.view());
  call.inputs = input_views_;
  call.block_table = {.pages = pages.data(), .blocks = blocks_, .page = page_, .lengths = lengths};
}

}  // namespace posenc::cases
