// Caches of keys and values on the CPU: in another type than the queries (int8 with scales, or another float), or in
// pages, which are read where they are.
#include "posenc/kernels/quantize.h"
#include "torch/paged_cache.h"
#include "torch/register.h"

namespace posenc::ops {
namespace {

at::Tensor attention_cache_cpu(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               const OptionalTensor& k_scales, const OptionalTensor& v_scales,
                               const OptionalTensor& block_table,
                               const OptionalTensor& cache_lengths, const at::Tensor& parameters,
                               POSENC_ATTENTION_PARAMETERS) {
  const CacheTensors cache = cache_of(k_scales, v_scales, block_table, cache_lengths);
  if (cache.paged() && q.scalar_type() == at::kDouble) {
    return gathered_attention(q, k, v, cache, parameters, POSENC_ATTENTION_NAMES);
  }
  const AttentionArguments a(q, k, v, parameters, POSENC_ATTENTION_NAMES, cache);
  at::Tensor out = empty_output(a.q, a.v);
  const at::Tensor lse =
      at::empty({q.size(0), q.size(1), q.size(2)}, q.options().dtype(at::kFloat));
  attention(a.call(out, lse)).throw_if_error();
  return out;
}

}  // namespace

void check_quantizable(const at::Tensor& x) {
  TORCH_CHECK(x.dim() == 4, "[quantize_rows] x must be [batch, heads, tokens, channels] but got ",
              x.dim(), " dimensions");
  TORCH_CHECK(storage_type(x.scalar_type()),
              "[quantize_rows] x must be float32, bfloat16 or float16 but got ", x.scalar_type());
}

namespace {

std::tuple<at::Tensor, at::Tensor> quantize_rows_cpu(const at::Tensor& x) {
  check_quantizable(x);
  const at::Tensor rows = with_contiguous_rows(x);
  const at::Tensor out = at::empty(x.sizes(), x.options().dtype(at::kChar));
  const at::Tensor scales =
      at::empty({x.size(0), x.size(1), x.size(2), 1}, x.options().dtype(at::kFloat));
  posenc::quantize_rows(view_of(rows), view_of(out), view_of(scales)).throw_if_error();
  return {out, scales};
}

}  // namespace

POSENC_KERNELS(CPU, m) {
  m.impl("_attention_cache", POSENC_KERNEL(attention_cache_cpu));
  m.impl("quantize_rows", POSENC_KERNEL(quantize_rows_cpu));
}

}  // namespace posenc::ops
