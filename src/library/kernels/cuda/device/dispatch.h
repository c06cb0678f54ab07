// From a run-time type to a kernel compiled for it.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "posenc/core/tensor_view.h"

namespace posenc::cuda {

// Calls body with a value of the storage type.
template <class Body>
auto with_type(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::kBfloat16:
      return body(__nv_bfloat16{});
    case DType::kFloat16:
      return body(__half{});
    default:
      return body(float{});
  }
}

}  // namespace posenc::cuda
