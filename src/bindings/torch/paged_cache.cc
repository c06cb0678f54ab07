#include "torch/paged_cache.h"

namespace posenc::ops {
namespace {

constexpr const char* kOp = "attention_decode";

at::Tensor on_host(const at::Tensor& x, at::ScalarType type) {
  return x.to(at::kCPU, type).contiguous();
}

}  // namespace

void check_cache_tables(const at::Tensor& q, const CacheTensors& cache) {
  const at::Tensor& table = cache.block_table;
  const at::Tensor& lengths = cache.lengths;
  TORCH_CHECK(table.dim() == 2 && table.size(0) == q.size(0) && table.scalar_type() == at::kInt,
              "[", kOp, "] block_table must be int32 [", q.size(0), ", blocks] but got ",
              table.scalar_type(), " ", table.sizes());
  TORCH_CHECK(lengths.dim() == 1 && lengths.size(0) == q.size(0) &&
                  at::isIntegralType(lengths.scalar_type(), false),
              "[", kOp, "] cache_lengths must be whole numbers [", q.size(0), "] but got ",
              lengths.scalar_type(), " ", lengths.sizes());
}

HostTable::HostTable(const at::Tensor& q, const CacheTensors& cache) {
  if (!cache.paged()) return;
  check_cache_tables(q, cache);
  pages_ = on_host(cache.block_table, at::kInt);
  const at::Tensor numbers = on_host(cache.lengths, at::kLong);
  lengths_.assign(numbers.data_ptr<std::int64_t>(),
                  numbers.data_ptr<std::int64_t>() + numbers.numel());
}

BlockTable HostTable::of_pages(std::int64_t page) const {
  if (!given()) return {};
  return {.pages = pages_.data_ptr<std::int32_t>(),
          .blocks = pages_.size(1),
          .page = page,
          .lengths = lengths_};
}

at::Tensor pool_of(const char* name, const at::Tensor& pool) {
  TORCH_CHECK(pool.dim() == 4, "[", kOp, "] ", name,
              " must be [blocks, page, heads, channels] with a block_table but got ", pool.dim(),
              " dimensions");
  TORCH_CHECK(pool.stride(3) == 1 || pool.size(3) <= 1, "[", kOp, "] ", name,
              " must have contiguous channels but got stride ", pool.stride(3),
              "; a pool is read where it is");
  return pool.transpose(1, 2);
}

at::Tensor shape_of_keys(const at::Tensor& q, const at::Tensor& k_pool, const HostTable& table) {
  return at::empty({1}, q.options().device(at::kCPU))
      .expand({q.size(0), k_pool.size(1), std::max<std::int64_t>(table.longest(), 0), q.size(3)});
}

}  // namespace posenc::ops
