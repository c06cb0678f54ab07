// Several tensors as one message: their bytes concatenated, each aligned to a cache line.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace posenc::parallel {

class PacketLayout {
 public:
  // A tensor that the packet has.
  void add(at::IntArrayRef sizes, at::ScalarType type);
  void add_like(const at::Tensor& x) { add(x.sizes(), x.scalar_type()); }

  [[nodiscard]] at::Tensor allocate() const;  // zeros: what is added to starts there
  // The tensors of a packet, as views of it.
  [[nodiscard]] std::vector<at::Tensor> parts(const at::Tensor& packet) const;

 private:
  struct Part {
    std::vector<std::int64_t> sizes;
    at::ScalarType type;
    std::int64_t first;  // byte
    std::int64_t count;  // of bytes
  };
  std::vector<Part> parts_;
  std::int64_t bytes_ = 0;
};

// A copy of the tensors as one packet.
at::Tensor packed(const std::vector<at::Tensor>& tensors);

}  // namespace posenc::parallel
