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

namespace posenc {

enum class DType : std::uint8_t { kFloat32, kBfloat16, kFloat16 };

constexpr std::size_t dtype_size(DType dtype) noexcept { return dtype == DType::kFloat32 ? 4 : 2; }
constexpr const char* dtype_name(DType dtype) noexcept {
  constexpr std::array<const char*, 3> kNames = {"float32", "bfloat16", "float16"};
  return kNames[static_cast<std::size_t>(dtype)];
}

// Conversions of one number: round to nearest, ties to even; NaN stays NaN.
std::uint16_t float_to_bfloat16(float x) noexcept;
std::uint16_t float_to_float16(float x) noexcept;
float float16_to_float(std::uint16_t bits) noexcept;
constexpr float bfloat16_to_float(std::uint16_t bits) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// Pointer is `void*` or `const void*`.
template <class Pointer>
struct BasicTensorView {
  Pointer data = nullptr;
  DType dtype = DType::kFloat32;
  std::array<std::int64_t, 4> shape{};   // batch, heads, tokens, channels
  std::array<std::int64_t, 4> stride{};  // in elements

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
  ConstTensorView(const TensorView& view) noexcept  // NOLINT: a view may always be read
      : BasicTensorView{view.data, view.dtype, view.shape, view.stride} {}
  ConstTensorView(const void* pointer, DType type, std::array<std::int64_t, 4> sizes,
                  std::array<std::int64_t, 4> strides) noexcept
      : BasicTensorView{pointer, type, sizes, strides} {}
};

// Strides of a dense row-major tensor of this shape.
constexpr std::array<std::int64_t, 4> dense_strides(
    const std::array<std::int64_t, 4>& shape) noexcept {
  return {shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3], 1};
}

}  // namespace posenc
