// Device memory for tests, and the reason why there may be none.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cases/tensor.h"
#include "kernels/cuda/launch.h"
#include "posenc/core/rng.h"

namespace posenc::cuda::testing {

inline void check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

// Bytes on the device, as many as the host's.
class Bytes {
 public:
  Bytes() = default;
  explicit Bytes(std::size_t size) : size_(size) {
    if (size > 0) check(cudaMalloc(&data_, size));
  }
  explicit Bytes(std::span<const std::byte> from) : Bytes(from.size()) {
    if (size_ > 0) check(cudaMemcpy(data_, from.data(), size_, cudaMemcpyHostToDevice));
  }
  template <class T>
  explicit Bytes(const std::vector<T>& from) : Bytes(std::as_bytes(std::span<const T>(from))) {}
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  Bytes& operator=(Bytes&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  Bytes(Bytes&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  ~Bytes() { cudaFree(data_); }

  [[nodiscard]] void* data() const { return data_; }
  template <class T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(data_);
  }
  void read(std::span<std::byte> to) const {
    if (size_ > 0) check(cudaMemcpy(to.data(), data_, size_, cudaMemcpyDeviceToHost));
  }
  template <class T>
  [[nodiscard]] std::vector<T> values() const {
    std::vector<T> all(size_ / sizeof(T));
    read(std::as_writable_bytes(std::span<T>(all)));
    return all;
  }

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

// A case's tensor on the device, with the same strides.
class Mirror {
 public:
  explicit Mirror(cases::Tensor& host) : host_(&host), bytes_(std::span(host.storage())) {}
  [[nodiscard]] TensorView view() const {
    TensorView view = host_->view();
    view.data = bytes_.data();
    return view;
  }
  void bring_back() const { bytes_.read(host_->storage()); }

 private:
  cases::Tensor* host_;
  Bytes bytes_;
};

class Test : public ::testing::Test {
 protected:
  void SetUp() override {
    const Status status = device_status();
    if (!status.ok()) GTEST_SKIP() << status.message();
  }
};

inline std::vector<float> random_floats(Rng& rng, std::int64_t count) {
  std::vector<float> all(static_cast<std::size_t>(count));
  for (float& x : all) x = static_cast<float>(rng.normal());
  return all;
}

}  // namespace posenc::cuda::testing
