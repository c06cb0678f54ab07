// Pages gathered into contiguous tensors, for GPUs and float64.
#include <map>

#include "kernels/paged_cache.h"
#include "torch/autograd.h"
#include "torch/paged_cache.h"

namespace posenc::ops {
namespace {

constexpr const char* kOp = "attention_decode";

// The sequences of one length.
struct Batch {
  std::int64_t length;
  at::Tensor entries;  // of the batch
  at::Tensor pages;    // [entries * blocks]
};

// In the order of the lengths.
std::vector<Batch> batches_of(const HostTable& table, const at::Tensor& block_table,
                              std::int64_t page, const at::Device& device) {
  std::map<std::int64_t, std::vector<std::int64_t>> entries;
  for (std::int64_t b = 0; b < std::ssize(table.lengths()); ++b) {
    entries[table.lengths()[b]].push_back(b);
  }
  std::vector<Batch> batches;
  for (const auto& [length, rows] : entries) {
    const at::Tensor index = at::tensor(rows, at::kLong).to(device);
    const std::int64_t blocks = (length + page - 1) / page;
    const at::Tensor used = block_table.to(device).index_select(0, index).narrow(1, 0, blocks);
    batches.push_back({length, index, used.reshape({-1})});
  }
  return batches;
}

// Its rows of a pool, [entries, heads, length, channels].
at::Tensor gathered(const at::Tensor& pool, const Batch& batch) {
  const at::Tensor pages = pool.index_select(0, batch.pages);
  const std::int64_t entries = batch.entries.size(0);
  return pages
      .reshape({entries, pages.size(0) / entries * pool.size(1), pool.size(2), pool.size(3)})
      .narrow(1, 0, batch.length)
      .transpose(1, 2);
}

// Its part of a tensor [B, tokens, ...] or undefined; all tokens where `length` is negative.
OptionalTensor part_of(const at::Tensor& x, const Batch& batch, std::int64_t length) {
  if (!x.defined()) return {};
  const at::Tensor rows = x.size(0) == 1 ? x : x.index_select(0, batch.entries);
  return length < 0 ? rows : rows.narrow(1, 0, length);
}

}  // namespace

void check_pool(const char* name, const at::Tensor& x, const at::Tensor& k, const at::Tensor& q) {
  TORCH_CHECK(x.dim() == 4 && x.size(0) == k.size(0) && x.size(1) == k.size(1), "[", kOp, "] ",
              name, " must be [blocks, page, heads, channels] with the ", k.size(0), " blocks of ",
              k.size(1), " tokens that k has but got ", x.sizes());
  TORCH_CHECK(x.device() == q.device(), "[", kOp, "] ", name, " must be on ", q.device(),
              " as q is but is on ", x.device());
}

at::Tensor gathered_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              const CacheTensors& cache, const at::Tensor& parameters,
                              POSENC_ATTENTION_PARAMETERS) {
  check_pool("k", k, k, q);
  check_pool("v", v, k, q);
  for (const at::Tensor& input : inputs) check_pool("inputs", input, k, q);
  const HostTable table(q, cache);
  check_table(table.of_pages(k.size(1)), q.size(0), k.size(0)).throw_if_error();
  const at::Tensor keys = shape_of_keys(q, k.transpose(1, 2), table);
  const at::Tensor mask = key_mask_on(q.device(), kOp, key_mask, keys);
  const at::Tensor q_ids =
      positions_on(q.device(), kOp, "q_positions", q_positions, q.size(0), q.size(2));
  const at::Tensor k_ids =
      positions_on(q.device(), kOp, "k_positions", k_positions, q.size(0), keys.size(2));
  at::Tensor out = empty_output(q, v);
  for (const Batch& batch : batches_of(table, cache.block_table, k.size(1), q.device())) {
    std::vector<at::Tensor> rows;
    for (const at::Tensor& input : inputs) rows.push_back(gathered(input, batch));
    out.index_copy_(0, batch.entries,
                    std::get<0>(call_attention(
                        q.index_select(0, batch.entries), gathered(k, batch).to(q.scalar_type()),
                        gathered(v, batch).to(q.scalar_type()), parameters, rows, spec, causal,
                        window_left, window_right, part_of(mask, batch, batch.length), cu_queries,
                        cu_keys, part_of(q_ids, batch, -1), part_of(k_ids, batch, batch.length),
                        scale, dropout, seed, keys_are_turned)));
  }
  return out;
}

}  // namespace posenc::ops
