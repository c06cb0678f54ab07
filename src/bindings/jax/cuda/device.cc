#include "jax/cuda/device.h"

namespace posenc::jax {

void require(cudaError_t error) {
  if (error == cudaSuccess) return;
  throw Error(ErrorKind::kResource, {.scope = "cuda", .rule = cudaGetErrorString(error)});
}

void* Device::bytes(std::size_t count) {
  constexpr std::size_t kAlignment = 256;
  const auto memory = scratch_.Allocate(std::max(count, kAlignment), kAlignment);
  if (!memory) {
    throw Error(ErrorKind::kResource, {.scope = "cuda",
                                       .rule = "no memory for scratch",
                                       .value = std::to_string(count) + " bytes"});
  }
  return *memory;
}

TensorView Device::like(const TensorView& x) {
  const auto size = static_cast<std::size_t>(count_of(x)) * dtype_size(x.dtype);
  return TensorView::dense(bytes(size), x.dtype, x.shape);
}

void Device::copy(const void* from, void* to, std::size_t count, cudaMemcpyKind kind) {
  if (count > 0) require(cudaMemcpyAsync(to, from, count, kind, stream_));
}

void Device::wait() { require(cudaStreamSynchronize(stream_)); }

void Device::zero(const TensorView& x) {
  const auto size = static_cast<std::size_t>(count_of(x)) * dtype_size(x.dtype);
  if (size > 0) require(cudaMemsetAsync(x.data, 0, size, stream_));
}

HostRead Device::reader() {
  return [this](const ffi::AnyBuffer& buffer) -> const void* {
    copies_.emplace_back(std::max<std::size_t>(buffer.size_bytes(), 1));
    copy(buffer.untyped_data(), copies_.back().data(), buffer.size_bytes(), cudaMemcpyDeviceToHost);
    wait();
    return copies_.back().data();
  };
}

}  // namespace posenc::jax
