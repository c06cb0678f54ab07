#include "torch/paged_cache.h"

namespace posenc::ops {

at::Tensor gathered_attention(const at::Tensor& q, const at::Tensor& /*k*/, const at::Tensor& /*v*/,
                              const CacheTensors& /*cache*/, const at::Tensor& /*parameters*/,
                              POSENC_ATTENTION_PARAMETERS) {
  (void)std::make_tuple(POSENC_ATTENTION_NAMES);
  TORCH_CHECK(
      false,
      "[attention_decode] a paged cache must be float32, bfloat16, float16 or int8 but q is ",
      q.scalar_type(),
      " in the build for PyTorch's stable ABI; convert q, or build posenc for this torch: pip "
      "install --no-build-isolation . in its source tree");
  return q;
}

}  // namespace posenc::ops
