#include "torch/composed/paths.h"

namespace posenc::ops {
namespace {

// Newer versions of PyTorch keep the precision of products per backend, by name or by enumerators, and
// throw where their older switch disagrees: there the newer one is asked, which follows the older.
template <class Context, class Precision, class Backend, class Op>
bool allows_tf32(const Context& context, Precision (Context::*precision)(Backend, Op) const) {
  return (context.*precision)(Backend::CUDA, Op::MATMUL) == Precision::TF32;
}
template <class Context>
bool allows_tf32(Context& context) {
  if constexpr (requires { context.float32Precision("cuda", "matmul"); }) {
    return context.float32Precision("cuda", "matmul") == "tf32";
  } else if constexpr (requires { &Context::float32Precision; }) {
    return allows_tf32(context, &Context::float32Precision);
  } else {
    return context.float32MatmulPrecision() != at::Float32MatmulPrecision::HIGHEST;
  }
}

}  // namespace

bool allows_split_float32() { return allows_tf32(at::globalContext()); }

CudaNumbers cuda_numbers(at::ScalarType type) {
  if (type == at::kBFloat16 || type == at::kHalf) return CudaNumbers::kHalf;
  if (type == at::kDouble) return CudaNumbers::kFloat64;
  return allows_split_float32() ? CudaNumbers::kSplitFloat32 : CudaNumbers::kExactFloat32;
}

}  // namespace posenc::ops
