// Converts C structs to C++ structs and makes the checks that are only possible here. Every function
// throws Failure; `op` is the operation in the message and `name` the argument.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>

#include "capi/guard.h"
#include "capi/handles.h"

namespace posenc::capi {

void check_pointer(const char* op, const char* name, const void* pointer);
template <class T>
T& required(const char* op, const char* name, T* pointer) {
  check_pointer(op, name, pointer);
  return *pointer;
}

void check_struct_size(const char* op, const char* name, std::size_t size, std::size_t least);
// Bytes that a newer caller has and this library does not know must be zero.
void check_unknown_fields(const char* op, const char* name, std::span<const unsigned char> bytes);

// The caller's struct in today's size: fields that it lacks are zero. It must reach to `least`, where
// the optional fields begin.
template <class T>
T read_struct(const char* op, const char* name, const T* given, std::size_t least) {
  const std::size_t size = required(op, name, given).struct_size;
  check_struct_size(op, name, size, least);
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  if (size > sizeof(T)) check_unknown_fields(op, name, {bytes + sizeof(T), size - sizeof(T)});
  T known{};
  std::memcpy(&known, bytes, std::min(size, sizeof(T)));
  return known;
}

void check_reserved(const char* op, const char* name, std::int32_t reserved);
bool read_flag(const char* op, const char* name, std::int32_t value);
// An enum's value, 0 .. count - 1.
void check_choice(const char* op, const char* name, std::int32_t value, std::int32_t count);
void check_count(const char* op, const char* name, std::size_t wanted, std::size_t got);

template <class T>
std::span<T> span_of(const char* op, const char* name, T* data, std::size_t count) {
  if (count > 0) check_pointer(op, name, data);
  return {data, count};
}

// Copies a text as snprintf does.
std::int64_t write_text(const char* op, std::string_view text, char* buffer, std::size_t capacity);

ModelShape shape_of(const char* op, const posenc_shape& shape);

bool is_given(const posenc_tensor& tensor) noexcept;
TensorView tensor_of(const char* op, const char* name, const posenc_tensor& tensor);
TensorView required_tensor(const char* op, const char* name, const posenc_tensor& tensor);

// The tokens that positions are for.
struct Tokens {
  std::int64_t batch;
  std::int64_t tokens;
  std::int64_t axes;
};
PositionsView positions_of(const char* op, const char* name, const posenc_positions& p,
                           const Tokens& n);
// Of a sequence, 0 .. 2^53.
void check_length(const char* op, const char* name, std::int64_t length);

// Of a call with this many batch entries.
BlockTable block_table_of(const char* op, const posenc_block_table& table, std::int64_t batch);

AttentionMask mask_of(const char* op, const posenc_mask& mask, const ConstTensorView& k);

// Whether a handle's values fit a spec and a shape.
bool made_for(const posenc_parameters& parameters, const Spec& spec, const ModelShape& shape);
// The values for a plan: of a handle that was made for its spec and shape, or none where the spec
// has no parameters.
const std::shared_ptr<Values>& values_of(const char* op, const posenc_plan& plan,
                                         const posenc_parameters* parameters);
// Where gradients go, or null. `values` are those of the forward.
Values* gradients_of(const char* op, const posenc_plan& plan, const Values* values,
                     posenc_parameters* gradients);

}  // namespace posenc::capi
