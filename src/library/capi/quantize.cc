#include "posenc/kernels/quantize.h"

#include "capi/arguments.h"

namespace posenc::capi {
namespace {

TensorView tensor_at(const char* op, const char* name, const posenc_tensor* tensor) {
  return required_tensor(op, name, required(op, name, tensor));
}

}  // namespace
}  // namespace posenc::capi

extern "C" {

posenc_status posenc_quantize_rows(const posenc_tensor* x, const posenc_tensor* quantized,
                                   const posenc_tensor* scales) noexcept {
  constexpr const char* kName = "quantize_rows";
  return posenc::capi::guarded([&] {
    return posenc::quantize_rows(posenc::capi::tensor_at(kName, "x", x),
                                 posenc::capi::tensor_at(kName, "quantized", quantized),
                                 posenc::capi::tensor_at(kName, "scales", scales));
  });
}

posenc_status posenc_dequantize_rows(const posenc_tensor* quantized, const posenc_tensor* scales,
                                     const posenc_tensor* x) noexcept {
  constexpr const char* kName = "dequantize_rows";
  return posenc::capi::guarded([&] {
    return posenc::dequantize_rows(posenc::capi::tensor_at(kName, "quantized", quantized),
                                   posenc::capi::tensor_at(kName, "scales", scales),
                                   posenc::capi::tensor_at(kName, "x", x));
  });
}

}  // extern "C"
