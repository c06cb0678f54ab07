// The device of a call: its stream, scratch memory that lives as long as the call, and copies to and from the host.
#pragma once

#include <cuda_runtime_api.h>

#include <deque>
#include <type_traits>
#include <vector>

#include "jax/buffers.h"
#include "kernels/cuda/launch.h"

namespace posenc::jax {

class Device {
 public:
  Device(cudaStream_t stream, ffi::ScratchAllocator& scratch)
      : stream_(stream), scratch_(scratch) {}
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  [[nodiscard]] cuda::Stream stream() const { return stream_; }

  // Aligned to 256 bytes. Throws where there is no memory.
  void* bytes(std::size_t count);
  template <class T>
  T* make(std::int64_t count) {
    return static_cast<T*>(bytes(static_cast<std::size_t>(count) * sizeof(T)));
  }
  // A dense tensor of the same shape and type.
  TensorView like(const TensorView& x);

  template <class T>
  T* upload(const std::vector<T>& values) {
    auto* to = make<T>(std::ssize(values));
    copy(values.data(), to, values.size() * sizeof(T), cudaMemcpyHostToDevice);
    return to;
  }
  template <class T>
  void upload(const std::vector<T>& values, void* to) {
    copy(values.data(), to, values.size() * sizeof(T), cudaMemcpyHostToDevice);
  }
  // Waits for the stream.
  template <class T>
  std::vector<T> download(const T* from, std::int64_t count) {
    std::vector<T> values(static_cast<std::size_t>(count));
    copy(from, values.data(), values.size() * sizeof(T), cudaMemcpyDeviceToHost);
    wait();
    return values;
  }
  void zero(const TensorView& x);

  // Copies of buffers, which live as long as this.
  HostRead reader();

 private:
  void copy(const void* from, void* to, std::size_t count, cudaMemcpyKind kind);
  void wait();

  cudaStream_t stream_;
  ffi::ScratchAllocator& scratch_;
  std::deque<std::vector<std::byte>> copies_;
};

void require(cudaError_t error);

inline std::int64_t count_of(const TensorView& x) {
  return x.shape[0] * x.shape[1] * x.shape[2] * x.shape[3];
}

}  // namespace posenc::jax
