// Tensor views that the kernels read and write: a pointer, a shape, strides and an element type.
//
// The shape is always [batch, heads, tokens, channels]; the strides describe the layout in memory.
// The last dimension must be contiguous. The others may have any stride, so a projection's output of
// shape [batch, tokens, heads, channels] needs no copy.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace posenc {

// int8 is for caches of keys and values, whose rows have scales (posenc/kernels/quantize.h); other tensors are
// floating-point.
enum class DType : std::uint8_t { kFloat32, kBfloat16, kFloat16, kInt8 };

constexpr std::size_t dtype_size(DType dtype) noexcept {
  constexpr std::array<std::size_t, 4> kSizes = {4, 2, 2, 1};
  return kSizes[static_cast<std::size_t>(dtype)];
}
constexpr const char* dtype_name(DType dtype) noexcept {
  constexpr std::array<const char*, 4> kNames = {"float32", "bfloat16", "float16", "int8"};
  return kNames[static_cast<std::size_t>(dtype)];
}

// Conversions of one number: round to nearest, ties to even; NaN stays NaN.
std::uint16_t float_to_bfloat16(float x) noexcept;
std::uint16_t float_to_float16(float x) noexcept;
float float16_to_float(std::uint16_t bits) noexcept;
constexpr float bfloat16_to_float(std::uint16_t bits) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

using TensorShape = std::array<std::int64_t, 4>;  // batch, heads, tokens, channels

// Strides of a dense row-major tensor of this shape.
constexpr TensorShape dense_strides(const TensorShape& shape) noexcept {
  return {shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3], 1};
}

// Throw Error where an array of `size` elements does not hold a tensor, or where tokens are not there.
void check_dense_size(std::size_t size, const TensorShape& shape);
void check_half_type(DType dtype);
void check_token_range(std::int64_t first, std::int64_t count, std::int64_t tokens);

// Pointer is `void*` or `const void*`.
template <class Pointer>
struct BasicTensorView {
  template <class T>
  using Element = std::conditional_t<std::is_const_v<std::remove_pointer_t<Pointer>>, const T, T>;

  Pointer data = nullptr;
  DType dtype = DType::kFloat32;
  TensorShape shape{};
  TensorShape stride{};  // in elements

  // A row-major tensor without gaps. A span (or a std::vector) must have as many elements as the shape;
  // 16-bit elements are the bits of a bfloat16 or float16.
  static BasicTensorView dense(std::span<Element<float>> elements, const TensorShape& shape) {
    check_dense_size(elements.size(), shape);
    return dense(elements.data(), shape);
  }
  static BasicTensorView dense(std::span<Element<std::uint16_t>> elements, DType dtype,
                               const TensorShape& shape) {
    check_half_type(dtype);
    check_dense_size(elements.size(), shape);
    return dense(static_cast<Pointer>(elements.data()), dtype, shape);
  }
  static BasicTensorView dense(std::span<Element<std::int8_t>> elements, const TensorShape& shape) {
    check_dense_size(elements.size(), shape);
    return dense(static_cast<Pointer>(elements.data()), DType::kInt8, shape);
  }
  static constexpr BasicTensorView dense(Element<float>* data, const TensorShape& shape) noexcept {
    return {data, DType::kFloat32, shape, dense_strides(shape)};
  }
  static constexpr BasicTensorView dense(Pointer data, DType dtype,
                                         const TensorShape& shape) noexcept {
    return {data, dtype, shape, dense_strides(shape)};
  }

  // The same memory with heads and tokens exchanged: [batch, tokens, heads, channels] becomes
  // [batch, heads, tokens, channels].
  [[nodiscard]] constexpr BasicTensorView transposed() const noexcept {
    return {data,
            dtype,
            {shape[0], shape[2], shape[1], shape[3]},
            {stride[0], stride[2], stride[1], stride[3]}};
  }
  // `count` tokens from `first` on, of every head: what a key/value cache holds so far, or its next place.
  [[nodiscard]] BasicTensorView token_range(std::int64_t first, std::int64_t count) const {
    check_token_range(first, count, tokens());
    using Byte = Element<std::byte>;
    Byte* start = data == nullptr ? nullptr : static_cast<Byte*>(data) + row_offset(0, 0, first);
    return {start, dtype, {shape[0], shape[1], count, shape[3]}, stride};
  }

  [[nodiscard]] bool present() const noexcept { return data != nullptr; }
  [[nodiscard]] std::int64_t batch() const noexcept { return shape[0]; }
  [[nodiscard]] std::int64_t heads() const noexcept { return shape[1]; }
  [[nodiscard]] std::int64_t tokens() const noexcept { return shape[2]; }
  [[nodiscard]] std::int64_t channels() const noexcept { return shape[3]; }
  [[nodiscard]] bool empty() const noexcept {
    return shape[0] == 0 || shape[1] == 0 || shape[2] == 0 || shape[3] == 0;
  }
  // Start of a row of channels, in bytes from `data`.
  [[nodiscard]] std::int64_t row_offset(std::int64_t b, std::int64_t h,
                                        std::int64_t t) const noexcept {
    return (b * stride[0] + h * stride[1] + t * stride[2]) *
           static_cast<std::int64_t>(dtype_size(dtype));
  }
};

using TensorView = BasicTensorView<void*>;

struct ConstTensorView : BasicTensorView<const void*> {
  ConstTensorView() = default;
  ConstTensorView(const BasicTensorView& view) noexcept  // NOLINT: what dense() returns
      : BasicTensorView(view) {}
  ConstTensorView(const TensorView& view) noexcept  // NOLINT: a view may always be read
      : BasicTensorView{view.data, view.dtype, view.shape, view.stride} {}
  ConstTensorView(const void* pointer, DType type, TensorShape sizes, TensorShape strides) noexcept
      : BasicTensorView{pointer, type, sizes, strides} {}
};

}  // namespace posenc

// SPDX-License-Identifier: MIT
