// Decode steps on a paged cache: the decode kernels read the pages in place where they serve the call, and the pages are
// gathered elsewhere.
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <bit>
#include <limits>

#include "kernels/cuda/decode.h"
#include "kernels/paged_cache.h"
#include "kernels/path_trace.h"
#include "torch/cuda/fused_call.h"
#include "torch/cuda/stream.h"
#include "torch/paged_cache.h"

namespace posenc::ops {
namespace {

// A cache on the device, as the kernels take it.
class DevicePages {
 public:
  DevicePages(const at::Tensor& q, const CacheTensors& cache, const at::Tensor& k_pool)
      : table_(cache.block_table.to(q.device()).contiguous()),
        lengths_(cache.lengths.to(q.device(), at::kLong).contiguous()),
        page_(k_pool.size(1)),
        pool_(k_pool.size(0)),
        keys_(keys_of(q, cache)) {}

  // Tokens of the longest sequence, or as many as the table has room for: lengths on the device are not waited for.
  [[nodiscard]] std::int64_t keys() const { return keys_; }
  [[nodiscard]] const at::Tensor& lengths() const { return lengths_; }
  [[nodiscard]] cuda::PageTable table() const {
    return {table_.data_ptr<std::int32_t>(), lengths_.data_ptr<std::int64_t>(), table_.size(1),
            std::countr_zero(static_cast<std::uint64_t>(page_)), static_cast<std::int32_t>(pool_)};
  }

 private:
  // What lies on the host is checked, as for pages that are gathered.
  [[nodiscard]] std::int64_t keys_of(const at::Tensor& q, const CacheTensors& cache) const {
    if (cache.lengths.is_cuda()) return table_.size(1) * page_;
    const HostTable host(q, cache);
    check_table(host.of_pages(page_), q.size(0), pool_).throw_if_error();
    return host.longest();
  }

  at::Tensor table_;    // int32 [B, blocks]
  at::Tensor lengths_;  // int64 [B]
  std::int64_t page_;
  std::int64_t pool_;
  std::int64_t keys_;
};

bool has_kernel_pages(const at::Tensor& pool) {
  const std::int64_t page = pool.size(1);
  return page >= cuda::kLeastPage && std::has_single_bit(static_cast<std::uint64_t>(page)) &&
         is_aligned(pool);
}

// What has the shape of the keys without pages, and the memory of one row.
at::Tensor shape_of_rows(const at::Tensor& q, const at::Tensor& pool, std::int64_t keys) {
  return at::empty({pool.size(3)}, pool.options())
      .expand({q.size(0), pool.size(2), keys, pool.size(3)});
}

cuda::Tensor4 pages_of(const at::Tensor& pool) {
  return {pool.data_ptr(), pool.stride(0), pool.stride(2), pool.stride(1)};
}

bool decodes_in_place(const CudaCall& call) {
  const Terms& terms = call.terms();
  const bool plain_keys = terms.rotary.empty() || call.composed().keys_are_turned;
  return plain_keys && call.fused() &&
         cuda_capability(terms, call.problem()).forward.path == AttentionPath::kDecode;
}

// Nothing where no decode kernel serves the call.
at::Tensor decoded_in_place(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const CacheTensors& cache, const at::Tensor& parameters,
                            POSENC_ATTENTION_PARAMETERS) {
  if (!has_kernel_pages(k) || !has_kernel_pages(v) || q.numel() == 0) return {};
  if (v.size(3) != q.size(3)) return {};
  const DevicePages pages(q, cache, k);
  if (pages.keys() == 0 || pages.keys() > std::numeric_limits<std::int32_t>::max()) return {};
  const CudaCall call(q, shape_of_rows(q, k, pages.keys()), shape_of_rows(q, v, pages.keys()),
                      parameters, POSENC_ATTENTION_NAMES, pages.lengths());
  if (!decodes_in_place(call)) return {};
  const at::Tensor out = aligned(at::empty_like(call.composed().q));
  const at::Tensor lse =
      at::empty({q.size(0), q.size(1), q.size(2)}, q.options().dtype(at::kFloat));
  FusedCall fused(call, out, lse);
  fused.p.k = pages_of(k);
  fused.p.v = pages_of(v);
  fused.p.pages = pages.table();
  if (!cuda::is_decode(fused.p)) return {};
  fused.give_workspace(cuda::decode_workspace_bytes(fused.p));
  if (!launched(cuda::launch_attention_decode(fused.p, current_stream(q.device())))) return {};
  path_trace().forward = AttentionPath::kDecode;
  return out;
}

at::Tensor attention_cache_cuda(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                const OptionalTensor& k_scales, const OptionalTensor& v_scales,
                                const OptionalTensor& block_table,
                                const OptionalTensor& cache_lengths, const at::Tensor& parameters,
                                POSENC_ATTENTION_PARAMETERS) {
  const c10::DeviceGuard guard(q.device());
  const CacheTensors cache = cache_of(k_scales, v_scales, block_table, cache_lengths);
  check_pool("k", k, k, q);
  check_pool("v", v, k, q);
  check_cache_tables(q, cache);
  // Masks and positions are by key of the longest sequence, which the host must know.
  if (!key_mask && !q_positions && !k_positions && inputs.empty()) {
    const at::Tensor out = decoded_in_place(q, k, v, cache, parameters, POSENC_ATTENTION_NAMES);
    if (out.defined()) return out;
  }
  return gathered_attention(q, k, v, cache, parameters, POSENC_ATTENTION_NAMES);
}

}  // namespace

TORCH_LIBRARY_IMPL(posenc, CUDA, m) { m.impl("_attention_cache", attention_cache_cuda); }

}  // namespace posenc::ops
