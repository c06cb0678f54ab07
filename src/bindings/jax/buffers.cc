#include "jax/buffers.h"

#include <algorithm>
#include <array>
#include <optional>
#include <sstream>

namespace posenc::jax {
namespace {

std::optional<DType> dtype_of(ffi::DataType type) {
  switch (type) {
    case ffi::F32:
      return DType::kFloat32;
    case ffi::BF16:
      return DType::kBfloat16;
    case ffi::F16:
      return DType::kFloat16;
    default:
      return std::nullopt;
  }
}

std::string text_of(ffi::DataType type) {
  std::ostringstream text;
  text << type;
  return text.str();
}

std::string shape_of(const ffi::AnyBuffer& buffer) {
  std::string text = "[";
  for (const std::int64_t n : buffer.dimensions()) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(n);
  }
  return text + "]";
}

// The last `N` dimensions, and those before them as a factor of the first.
template <std::size_t N>
std::optional<std::array<std::int64_t, N>> folded(const ffi::AnyBuffer& buffer) {
  const auto dims = buffer.dimensions();
  if (dims.size() < N) return std::nullopt;
  std::array<std::int64_t, N> shape;
  std::copy_n(dims.end() - N, N, shape.begin());
  for (std::size_t d = 0; d + N < dims.size(); ++d) shape[0] *= dims[d];
  return shape;
}

// XLA has no memory for arrays without entries, and kernels take null for an argument that is missing.
void* data_of(const ffi::AnyBuffer& buffer) {
  static std::array<std::byte, 64> nothing;
  void* data = buffer.untyped_data();
  return data == nullptr ? nothing.data() : data;
}

}  // namespace

void refuse(const std::string& op, const std::string& key, const std::string& rule,
            const std::string& value) {
  throw Error(ErrorKind::kConflict,
              {.scope = op, .key = key, .rule = rule, .value = value, .hint = ""});
}

Buffers::Buffers(const char* op, const ffi::RemainingArgs& args) : op_(op) {
  for (std::size_t i = 0; i < args.size(); ++i) {
    all_.push_back(args.get<ffi::AnyBuffer>(i).value());
  }
}
Buffers::Buffers(const char* op, const ffi::RemainingRets& rets) : op_(op) {
  for (std::size_t i = 0; i < rets.size(); ++i) {
    all_.push_back(*rets.get<ffi::AnyBuffer>(i).value());
  }
}

ffi::AnyBuffer Buffers::next(const std::string& name) {
  if (taken_ == all_.size()) refuse(op_, name, "is missing", "");
  return all_[taken_++];
}

void Buffers::finish() const {
  if (taken_ == all_.size()) return;
  refuse(op_, "arrays", "must be " + std::to_string(taken_) + " for these options",
         std::to_string(all_.size()));
}

TensorView Buffers::tensor(const std::string& name) { return tensor_of(op_, name, next(name)); }
std::span<float> Buffers::floats(const std::string& name, std::int64_t count) {
  return floats_of(op_, name, next(name), count);
}

TensorView tensor_of(const char* op, const std::string& name, const ffi::AnyBuffer& buffer) {
  const auto dtype = dtype_of(buffer.element_type());
  if (!dtype) {
    refuse(op, name, "must be float32, bfloat16 or float16", text_of(buffer.element_type()));
  }
  const auto shape = folded<4>(buffer);
  if (!shape) refuse(op, name, "must be [batch, heads, tokens, channels]", shape_of(buffer));
  return TensorView::dense(data_of(buffer), *dtype, *shape);
}

std::span<float> floats_of(const char* op, const std::string& name, const ffi::AnyBuffer& buffer,
                           std::int64_t count) {
  if (buffer.element_type() != ffi::F32) {
    refuse(op, name, "must be float32", text_of(buffer.element_type()));
  }
  if (static_cast<std::int64_t>(buffer.element_count()) != count) {
    refuse(op, name, "must have " + std::to_string(count) + " entries", shape_of(buffer));
  }
  return {static_cast<float*>(data_of(buffer)), static_cast<std::size_t>(count)};
}

const void* read_in_place(const ffi::AnyBuffer& buffer) { return data_of(buffer); }

std::vector<std::int64_t> integers_of(const char* op, const std::string& name,
                                      const ffi::AnyBuffer& buffer, const HostRead& read) {
  const bool wide = buffer.element_type() == ffi::S64;
  if (!wide && buffer.element_type() != ffi::S32) {
    refuse(op, name, "must be int32 or int64", text_of(buffer.element_type()));
  }
  const std::size_t count = buffer.element_count();
  if (buffer.dimensions().size() != 1 || count == 0) {
    refuse(op, name, "must rise from 0 to the number of tokens", shape_of(buffer));
  }
  const void* data = read(buffer);
  const auto* narrow = static_cast<const std::int32_t*>(data);
  if (!wide) return {narrow, narrow + count};
  const auto* longs = static_cast<const std::int64_t*>(data);
  return {longs, longs + count};
}

Positions positions_of(const char* op, const std::string& name, const ffi::AnyBuffer& buffer,
                       std::int64_t batch, std::int64_t tokens, std::int64_t axes,
                       const HostRead& read) {
  const bool wide = buffer.element_type() == ffi::S64;
  if (!wide && buffer.element_type() != ffi::S32) {
    refuse(op, name, "must be int32 or int64", text_of(buffer.element_type()));
  }
  const auto shape = folded<3>(buffer);
  if (!shape || (*shape)[0] != batch || (*shape)[1] != tokens) {
    refuse(op, name,
           "must be [" + std::to_string(batch) + ", " + std::to_string(tokens) + ", coordinates]",
           shape_of(buffer));
  }
  const std::int64_t given = (*shape)[2];
  if (given != 1 && given != axes && axes > 1) {
    refuse(op, name, "must have 1 or " + std::to_string(axes) + " coordinates per token",
           std::to_string(given));
  }
  Positions positions;
  positions.axes = given;
  positions.view = {.ids = data_of(buffer),
                    .ids_are_64_bit = wide,
                    .batch_stride = tokens * given,
                    .token_stride = given,
                    .axis_stride = given > 1 ? 1 : 0};
  positions.host = positions.view;
  positions.host.ids = read(buffer);
  positions.host.check_values(op, name.c_str(), batch, tokens, given).throw_if_error();
  return positions;
}

}  // namespace posenc::jax
