// The dispatcher's side of caches in another type than the queries and of caches in pages: shapes, and the call from
// attention_decode.
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "torch/autograd.h"
#include "torch/paged_cache.h"

namespace posenc::ops {
namespace {

at::Tensor attention_cache_meta(const at::Tensor& q, const at::Tensor& /*k*/, const at::Tensor& v,
                                const OptionalTensor& /*k_scales*/,
                                const OptionalTensor& /*v_scales*/,
                                const OptionalTensor& /*block_table*/,
                                const OptionalTensor& /*cache_lengths*/,
                                const at::Tensor& /*parameters*/, POSENC_ATTENTION_PARAMETERS) {
  (void)std::make_tuple(POSENC_ATTENTION_NAMES);
  return empty_output_meta(q, v);
}

std::tuple<at::Tensor, at::Tensor> empty_quantized(const at::Tensor& x) {
  c10::SymDimVector of_scales(x.sym_sizes().begin(), x.sym_sizes().end());
  of_scales.back() = 1;
  return {x.new_empty_symint(x.sym_sizes(), at::kChar), x.new_empty_symint(of_scales, at::kFloat)};
}

std::tuple<at::Tensor, at::Tensor> quantize_rows_meta(const at::Tensor& x) {
  check_quantizable(x);
  return empty_quantized(x);
}

}  // namespace

at::Tensor call_attention_cache(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                const CacheTensors& cache, const at::Tensor& parameters,
                                POSENC_ATTENTION_PARAMETERS) {
  TORCH_CHECK(cache.paged() == cache.lengths.defined(),
              "[attention_decode] block_table and cache_lengths belong together but got ",
              cache.paged() ? "block_table" : "cache_lengths", " alone");
  TORCH_CHECK(!q.is_cuda() || !(cache.k_scales.defined() || cache.v_scales.defined()),
              "[attention_decode] k_scales and v_scales need a CPU but q is on ", q.device());
  TORCH_CHECK(k.device() == q.device() && v.device() == q.device(),
              "[attention_decode] k and v must be on ", q.device(), " as q is but are on ",
              k.device(), " and ", v.device());
  const bool one_type = k.scalar_type() == q.scalar_type() && v.scalar_type() == q.scalar_type();
  const bool exact = q.scalar_type() == at::kDouble && cache.paged();
  TORCH_CHECK(one_type || !q.is_cuda(), "[attention_decode] k and v must be ", q.scalar_type(),
              " as q is on a GPU but are ", k.scalar_type(), " and ", v.scalar_type());
  TORCH_CHECK(one_type || !exact, "[attention_decode] k and v must be ", q.scalar_type(),
              " as q is but are ", k.scalar_type(), " and ", v.scalar_type());
  TORCH_CHECK(!records({q, k, v, parameters, cache.k_scales, cache.v_scales}) && !records(inputs),
              cache.paged()
                  ? "[attention_decode] a paged cache has no gradients; call it under "
                    "torch.no_grad()"
                  : "[attention_decode] a cache of another type than q has no gradients; call it "
                    "under torch.no_grad()");
  static const auto kCall = c10::Dispatcher::singleton()
                                .findSchemaOrThrow("posenc::_attention_cache", "")
                                .typed<decltype(attention_cache_meta)>();
  at::AutoDispatchBelowADInplaceOrView below;
  return kCall.call(q, k, v, optional(cache.k_scales), optional(cache.v_scales),
                    optional(cache.block_table), optional(cache.lengths), parameters,
                    POSENC_ATTENTION_NAMES);
}

TORCH_LIBRARY_IMPL(posenc, Meta, m) {
  m.impl("_attention_cache", attention_cache_meta);
  m.impl("quantize_rows", quantize_rows_meta);
}

}  // namespace posenc::ops
