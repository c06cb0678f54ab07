// Tensors over PyTorch's stable ABI, with the names of its C++ interface: the same sources compile with both. Nothing
// here is a symbol of libtorch, so a library works with every version from 2.10. Tensors are on a CPU.
#pragma once

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

// Inside of posenc::ops, where lookup finds them before libtorch's namespaces.
namespace posenc::ops::c10 {
using std::optional;
}  // namespace posenc::ops::c10

namespace posenc::ops::at {

using torch::headeronly::DeviceType;
using torch::headeronly::ScalarType;
inline constexpr ScalarType kByte = ScalarType::Byte;
inline constexpr ScalarType kChar = ScalarType::Char;
inline constexpr ScalarType kInt = ScalarType::Int;
inline constexpr ScalarType kLong = ScalarType::Long;
inline constexpr ScalarType kHalf = ScalarType::Half;
inline constexpr ScalarType kFloat = ScalarType::Float;
inline constexpr ScalarType kDouble = ScalarType::Double;
inline constexpr ScalarType kBool = ScalarType::Bool;
inline constexpr ScalarType kBFloat16 = ScalarType::BFloat16;

bool isFloatingType(ScalarType type);
bool isIntegralType(ScalarType type, bool with_bool);

struct Device {
  DeviceType kind = DeviceType::CPU;
  int index = -1;
  [[nodiscard]] DeviceType type() const { return kind; }
  [[nodiscard]] std::string str() const;
  bool operator==(const Device&) const = default;
};
inline constexpr Device kCPU;
std::ostream& operator<<(std::ostream& out, const Device& device);

struct TensorOptions {
  TensorOptions(ScalarType of) : type(of) {}  // NOLINT: implicit, as in libtorch
  [[nodiscard]] TensorOptions dtype(ScalarType other) const { return {other}; }
  [[nodiscard]] TensorOptions device(const Device& /*cpu*/) const { return *this; }
  ScalarType type;
};

// Borrowed, as libtorch's IntArrayRef is.
class Sizes {
  using Ref = torch::headeronly::IntHeaderOnlyArrayRef;

 public:
  Sizes(Ref of) : of_(of) {}                                  // NOLINT: implicit, all three
  Sizes(std::initializer_list<std::int64_t> of) : of_(of) {}  // NOLINT
  Sizes(const std::vector<std::int64_t>& of) : of_(of) {}     // NOLINT
  operator Ref() const { return of_; }                        // NOLINT
  [[nodiscard]] const std::int64_t* begin() const { return of_.begin(); }
  [[nodiscard]] const std::int64_t* end() const { return of_.end(); }
  [[nodiscard]] std::vector<std::int64_t> vec() const { return {begin(), end()}; }

 private:
  Ref of_;
};
std::ostream& operator<<(std::ostream& out, const Sizes& sizes);

class Tensor {
 public:
  Tensor() = default;                                       // undefined
  Tensor(torch::stable::Tensor of) : of_(std::move(of)) {}  // NOLINT: implicit
  [[nodiscard]] torch::stable::Tensor stable() const {
    return of_ ? *of_ : torch::stable::Tensor();
  }

  [[nodiscard]] bool defined() const { return of_ && of_->defined(); }
  [[nodiscard]] std::int64_t dim() const { return of_->dim(); }
  [[nodiscard]] std::int64_t numel() const { return of_->numel(); }
  [[nodiscard]] std::int64_t size(std::int64_t d) const { return of_->size(d < 0 ? d + dim() : d); }
  [[nodiscard]] std::int64_t stride(std::int64_t d) const {
    return of_->stride(d < 0 ? d + dim() : d);
  }
  [[nodiscard]] Sizes sizes() const { return {of_->sizes()}; }
  [[nodiscard]] Sizes strides() const { return {of_->strides()}; }
  [[nodiscard]] ScalarType scalar_type() const { return of_->scalar_type(); }
  [[nodiscard]] TensorOptions options() const { return {scalar_type()}; }
  [[nodiscard]] Device device() const;
  [[nodiscard]] bool is_cpu() const { return of_->is_cpu(); }
  [[nodiscard]] bool is_cuda() const { return of_->is_cuda(); }
  [[nodiscard]] void* data_ptr() const { return of_->mutable_data_ptr(); }
  template <class T>
  [[nodiscard]] T* data_ptr() const {
    return static_cast<T*>(data_ptr());
  }
  template <class T>
  [[nodiscard]] T item() const;

  [[nodiscard]] Tensor to(TensorOptions options) const;
  [[nodiscard]] Tensor to(const Device& /*cpu*/, ScalarType type) const { return to(type); }
  [[nodiscard]] Tensor to(const Device& /*cpu*/) const { return *this; }
  [[nodiscard]] Tensor cpu() const { return *this; }
  [[nodiscard]] Tensor contiguous() const;
  [[nodiscard]] Tensor clone() const;
  [[nodiscard]] Tensor reshape(Sizes sizes) const;
  [[nodiscard]] Tensor unsqueeze(std::int64_t d) const;
  [[nodiscard]] Tensor transpose(std::int64_t a, std::int64_t b) const;
  [[nodiscard]] Tensor narrow(std::int64_t d, std::int64_t first, std::int64_t length) const;
  [[nodiscard]] Tensor expand(Sizes sizes) const;
  [[nodiscard]] Tensor min() const;
  [[nodiscard]] Tensor max() const;

 private:
  std::optional<torch::stable::Tensor> of_;
};

// Of a tensor with one entry, which is of T after a conversion.
template <>
std::int64_t Tensor::item() const;

using TensorList = std::span<const Tensor>;

Tensor empty(Sizes sizes, TensorOptions options);
Tensor empty_like(const Tensor& x);
Tensor zeros_like(const Tensor& x);
Tensor tensor(const std::vector<double>& values, ScalarType type);

template <class F>
void parallel_for(std::int64_t begin, std::int64_t end, std::int64_t grain, const F& f) {
  torch::stable::parallel_for(begin, end, grain, f);
}

template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  throw std::runtime_error(text.str());
}

}  // namespace posenc::ops::at

namespace posenc::ops {
inline bool has_symbolic_sizes(const at::Tensor& /*x*/) { return false; }
}  // namespace posenc::ops

#define TORCH_CHECK(condition, ...) \
  if (!(condition)) posenc::ops::at::refuse(__VA_ARGS__)
