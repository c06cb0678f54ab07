#include "torch/stable/tensor.h"

#include <algorithm>
#include <array>

namespace posenc::ops::at {
namespace {

using torch::stable::detail::from;

// An operator of PyTorch that has no function in the stable headers.
template <class... Arguments>
Tensor call(const char* name, const Arguments&... arguments) {
  std::array<StableIValue, sizeof...(Arguments)> stack{from(arguments)...};
  STABLE_TORCH_ERROR_CODE_CHECK(torch_call_dispatcher(name, "", stack.data(), TORCH_ABI_VERSION));
  return torch::stable::detail::to<torch::stable::Tensor>(stack[0]);
}

}  // namespace

bool isFloatingType(ScalarType type) {
  return type == kFloat || type == kDouble || type == kHalf || type == kBFloat16;
}

bool isIntegralType(ScalarType type, bool with_bool) {
  constexpr std::array kIntegers = {kByte, kChar, ScalarType::Short, ScalarType::Int, kLong};
  return (with_bool && type == kBool) ||
         std::find(kIntegers.begin(), kIntegers.end(), type) != kIntegers.end();
}

std::string Device::str() const {
  const std::string name = kind == DeviceType::CPU    ? "cpu"
                           : kind == DeviceType::CUDA ? "cuda"
                                                      : "another device";
  return index < 0 ? name : name + ":" + std::to_string(index);
}

std::ostream& operator<<(std::ostream& out, const Device& device) { return out << device.str(); }

std::ostream& operator<<(std::ostream& out, const Sizes& sizes) {
  out << "[";
  for (const std::int64_t* n = sizes.begin(); n != sizes.end(); ++n) {
    out << (n == sizes.begin() ? "" : ", ") << *n;
  }
  return out << "]";
}

Device Tensor::device() const {
  const torch::stable::Device found = of_->device();
  return {found.type(), found.type() == DeviceType::CPU ? -1 : found.index()};
}

template <>
std::int64_t Tensor::item() const {
  return *to(kLong).data_ptr<std::int64_t>();
}

Tensor Tensor::to(TensorOptions options) const {
  return options.type == scalar_type() ? *this : Tensor(torch::stable::to(*of_, options.type));
}

Tensor Tensor::contiguous() const {
  return of_->is_contiguous() ? *this : Tensor(torch::stable::contiguous(*of_));
}

Tensor Tensor::clone() const { return torch::stable::clone(*of_); }
Tensor Tensor::reshape(Sizes sizes) const { return torch::stable::reshape(*of_, sizes); }
Tensor Tensor::unsqueeze(std::int64_t d) const { return torch::stable::unsqueeze(*of_, d); }
Tensor Tensor::transpose(std::int64_t a, std::int64_t b) const {
  torch::stable::Tensor of = *of_;
  return torch::stable::transpose(of, a, b);
}
Tensor Tensor::min() const { return call("aten::min", *of_); }
Tensor Tensor::max() const { return call("aten::max", *of_); }

Tensor Tensor::narrow(std::int64_t d, std::int64_t first, std::int64_t length) const {
  torch::stable::Tensor of = *of_;
  return torch::stable::narrow(of, d, first, length);
}

Tensor Tensor::expand(Sizes sizes) const { return call("aten::expand", *of_, sizes.vec(), false); }

Tensor empty(Sizes sizes, TensorOptions options) {
  return torch::stable::empty(sizes, options.type);
}

Tensor empty_like(const Tensor& x) { return torch::stable::empty_like(x.stable()); }

Tensor zeros_like(const Tensor& x) {
  torch::stable::Tensor made = torch::stable::empty_like(x.stable());
  torch::stable::zero_(made);
  return made;
}

Tensor tensor(const std::vector<double>& values, ScalarType type) {
  const Tensor made = empty({static_cast<std::int64_t>(values.size())}, kDouble);
  std::copy(values.begin(), values.end(), made.data_ptr<double>());
  return made.to(type);
}

}  // namespace posenc::ops::at
