// Buffers of XLA as views of the kernels. Arrays are dense. Leading dimensions that jax.vmap adds are folded into the
// batch.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "posenc/core/error.h"
#include "posenc/core/tensor_view.h"
#include "posenc/kernels/positions.h"
#include "xla/ffi/api/ffi.h"

namespace posenc::jax {

namespace ffi = ::xla::ffi;

[[noreturn]] void refuse(const std::string& op, const std::string& key, const std::string& rule,
                         const std::string& value);

// The operands or the results of a call, taken one after the other.
class Buffers {
 public:
  Buffers(const char* op, const ffi::RemainingArgs& args);
  Buffers(const char* op, const ffi::RemainingRets& rets);

  [[nodiscard]] const char* op() const { return op_; }
  // Throws where there is no further one. `name` is for the message.
  ffi::AnyBuffer next(const std::string& name);
  // Throws where some are left.
  void finish() const;

  // [batch, heads, tokens, channels] in float32, bfloat16 or float16.
  TensorView tensor(const std::string& name);
  std::span<float> floats(const std::string& name, std::int64_t count);

 private:
  const char* op_;
  std::vector<ffi::AnyBuffer> all_;
  std::size_t taken_ = 0;
};

TensorView tensor_of(const char* op, const std::string& name, const ffi::AnyBuffer& buffer);
std::span<float> floats_of(const char* op, const std::string& name, const ffi::AnyBuffer& buffer,
                           std::int64_t count);

// Gives the host what a buffer holds: on a CPU the buffer itself, on a GPU a copy.
using HostRead = std::function<const void*(const ffi::AnyBuffer& buffer)>;
const void* read_in_place(const ffi::AnyBuffer& buffer);

// Integers of 32 or 64 bits in one dimension.
std::vector<std::int64_t> integers_of(const char* op, const std::string& name,
                                      const ffi::AnyBuffer& buffer, const HostRead& read);

// Positions [batch, tokens, axes] of 32 or 64 bits.
struct Positions {
  PositionsView view = {};  // of the buffer, on its device
  PositionsView host = {};  // the same in memory of the host
  std::int64_t axes = 1;
};
// Throws where their shape does not fit, or one is not exact in float64. `axes`: how many coordinates the spec reads.
Positions positions_of(const char* op, const std::string& name, const ffi::AnyBuffer& buffer,
                       std::int64_t batch, std::int64_t tokens, std::int64_t axes,
                       const HostRead& read);

}  // namespace posenc::jax
