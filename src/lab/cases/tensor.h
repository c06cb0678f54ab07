// A tensor that a case owns: storage of any type and strides, and the exact values in float64.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "core/aligned.h"
#include "posenc/core/rng.h"
#include "posenc/core/tensor_view.h"

namespace posenc::cases {

// How far storage may round a value of this size.
inline double rounding(DType dtype, double x) {
  const double unit = dtype == DType::kFloat32    ? 0x1.0p-24
                      : dtype == DType::kBfloat16 ? 0x1.0p-8
                                                  : 0x1.0p-11;
  return unit * std::abs(x) + (dtype == DType::kFloat16 ? 0x1.0p-25 : 0.0);
}

enum class Order { kDense, kTokensFirst, kPadded };  // [B,H,T,D], [B,T,H,D], gaps between rows

// On cache lines, as tensors of every framework are.
class Tensor {
 public:
  using Bytes = std::vector<std::byte, AlignedAllocator<std::byte>>;

  Tensor() : Tensor({0, 0, 0, 0}, DType::kFloat32) {}
  Tensor(std::array<std::int64_t, 4> shape, DType dtype, Order order = Order::kDense)
      : shape_(shape), dtype_(dtype) {
    const auto [b, h, t, d] = shape;
    if (order == Order::kDense) stride_ = {h * t * d, t * d, d, 1};
    if (order == Order::kTokensFirst) stride_ = {t * h * d, d, h * d, 1};
    if (order == Order::kPadded) stride_ = {h * (t * (d + 3) + 5), t * (d + 3) + 5, d + 3, 1};
    bytes_.resize(static_cast<std::size_t>(b * stride_[0]) * dtype_size(dtype) + 64);
  }

  // Random values, rounded as storage rounds them. Large tensors repeat a block: what is timed does
  // not depend on the values.
  void fill_random(Rng& rng, double scale = 1.0, double shift = 0.0) {
    std::vector<double> block;
    std::size_t n = 0;
    each([&](std::size_t at) {
      if (block.size() < kRandomBlock) block.push_back(shift + scale * rng.normal());
      write(at, block[n++ % kRandomBlock]);
    });
  }
  void fill(double value) {
    each([&](std::size_t at) { write(at, value); });
  }
  // Values [B, H, T, D], rounded as storage rounds them.
  void assign(const std::vector<double>& values) {
    std::size_t n = 0;
    each([&](std::size_t at) { write(at, values[n++]); });
  }
  // Exactly what is stored, [B, H, T, D].
  [[nodiscard]] std::vector<double> values() const {
    std::vector<double> all;
    all.reserve(shape_[0] * shape_[1] * shape_[2] * shape_[3]);
    each([&](std::size_t at) { all.push_back(read(at)); });
    return all;
  }
  [[nodiscard]] const Bytes& bytes() const { return bytes_; }
  [[nodiscard]] std::span<std::byte> storage() { return bytes_; }
  TensorView view() { return {bytes_.data(), dtype_, shape_, stride_}; }

 private:
  static constexpr std::size_t kRandomBlock = 1'000'003;  // prime: rows of any length differ

  template <class Body>
  void each(const Body& body) const {
    for (std::int64_t b = 0; b < shape_[0]; ++b) {
      for (std::int64_t h = 0; h < shape_[1]; ++h) {
        for (std::int64_t t = 0; t < shape_[2]; ++t) {
          for (std::int64_t d = 0; d < shape_[3]; ++d) {
            body(static_cast<std::size_t>(b * stride_[0] + h * stride_[1] + t * stride_[2] + d));
          }
        }
      }
    }
  }
  void write(std::size_t at, double x) {
    const auto f = static_cast<float>(x);
    if (dtype_ == DType::kFloat32) {
      std::memcpy(bytes_.data() + 4 * at, &f, 4);
      return;
    }
    if (dtype_ == DType::kInt8) {
      const float whole = std::isnan(f) ? 0.0f : std::nearbyint(std::clamp(f, -127.0f, 127.0f));
      bytes_[at] = static_cast<std::byte>(static_cast<std::int8_t>(whole));
      return;
    }
    const std::uint16_t bits =
        dtype_ == DType::kBfloat16 ? float_to_bfloat16(f) : float_to_float16(f);
    std::memcpy(bytes_.data() + 2 * at, &bits, 2);
  }
  [[nodiscard]] double read(std::size_t at) const {
    if (dtype_ == DType::kFloat32) {
      float f = 0.0f;
      std::memcpy(&f, bytes_.data() + 4 * at, 4);
      return f;
    }
    if (dtype_ == DType::kInt8) return static_cast<std::int8_t>(bytes_[at]);
    std::uint16_t bits = 0;
    std::memcpy(&bits, bytes_.data() + 2 * at, 2);
    return dtype_ == DType::kBfloat16 ? bfloat16_to_float(bits) : float16_to_float(bits);
  }

  std::array<std::int64_t, 4> shape_;
  DType dtype_;
  std::array<std::int64_t, 4> stride_{};
  Bytes bytes_;
};

}  // namespace posenc::cases
