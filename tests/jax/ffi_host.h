// What XLA does for a handler: call frames, and the functions that create errors.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "cases/tensor.h"
#include "jax/handlers.h"

namespace posenc::testing {

// The error of a call; OK has code 0 and no message.
struct FfiResult {
  XLA_FFI_Error_Code code = XLA_FFI_Error_Code_OK;
  std::string message;
};

class FfiFrame {
 public:
  using Attribute = std::variant<std::int64_t, double, std::string>;

  void operand(XLA_FFI_DataType type, const void* data, std::vector<std::int64_t> shape);
  void result(XLA_FFI_DataType type, void* data, std::vector<std::int64_t> shape);
  // [batch, heads, tokens, channels] of a dense tensor.
  void operand(cases::Tensor& x);
  void result(cases::Tensor& x);

  FfiResult run(XLA_FFI_Handler* handler);

  std::map<std::string, Attribute> attributes;  // sorted by name, as handlers expect them

 private:
  struct Buffer {
    std::vector<std::int64_t> shape;
    XLA_FFI_Buffer c;
  };
  static Buffer& add(std::deque<Buffer>& to, XLA_FFI_DataType type, void* data,
                     std::vector<std::int64_t> shape);

  std::deque<Buffer> operands_;
  std::deque<Buffer> results_;
};

XLA_FFI_DataType ffi_type(DType dtype);

// The version of the FFI that a handler was built with, as XLA asks for it before the first call.
XLA_FFI_Api_Version version_of(XLA_FFI_Handler* handler);

}  // namespace posenc::testing
