#include "parallel/ring_packet.h"

// clang in C++20 reads the headers of PyTorch 1.13 in this order only.
// clang-format off
#include <ATen/core/ivalue.h>
#include <ATen/ATen.h>
// clang-format on

namespace posenc::parallel {
namespace {

constexpr std::int64_t kLine = 64;

}  // namespace

void PacketLayout::add(at::IntArrayRef sizes, at::ScalarType type) {
  auto count = static_cast<std::int64_t>(c10::elementSize(type));
  for (const std::int64_t n : sizes) count *= n;
  parts_.push_back({sizes.vec(), type, bytes_, count});
  bytes_ += (count + kLine - 1) / kLine * kLine;
}

at::Tensor PacketLayout::allocate() const { return at::zeros({bytes_}, at::kByte); }

std::vector<at::Tensor> PacketLayout::parts(const at::Tensor& packet) const {
  std::vector<at::Tensor> tensors;
  for (const Part& part : parts_) {
    tensors.push_back(packet.narrow(0, part.first, part.count).view(part.type).view(part.sizes));
  }
  return tensors;
}

at::Tensor packed(const std::vector<at::Tensor>& tensors) {
  PacketLayout layout;
  for (const at::Tensor& x : tensors) layout.add_like(x);
  at::Tensor packet = layout.allocate();
  const std::vector<at::Tensor> parts = layout.parts(packet);
  for (std::size_t i = 0; i < parts.size(); ++i) parts[i].copy_(tensors[i]);
  return packet;
}

}  // namespace posenc::parallel
