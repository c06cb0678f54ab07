// Collectives between ranks: c10d's process group, with Gloo on CPUs and NCCL on GPUs.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "parallel/board.h"

namespace posenc::parallel {

// The backend for a device; an Error where this build lacks it, which names what to install.
void require_backend(at::Device device);
// "gloo, nccl": those that this build has.
std::string backends();

// An exchange on its way. wait() returns when the numbers are there; on a GPU, when the current stream will wait for them.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual void wait() = 0;
};

class Group {
 public:
  // All ranks of the launch make theirs at the same time.
  static std::unique_ptr<Group> make(const Launch& launch, const Board& board, at::Device device,
                                     std::chrono::milliseconds timeout);
  virtual ~Group() = default;

  // Tensors are dense and on the group's device; ranks start the same exchanges in the same order.
  virtual std::unique_ptr<Exchange> sum(const at::Tensor& x) = 0;
  virtual std::unique_ptr<Exchange> broadcast(const at::Tensor& x, int from) = 0;
  // Every rank's x, into tensors of its shape.
  virtual std::unique_ptr<Exchange> gather(const at::Tensor& x,
                                           const std::vector<at::Tensor>& into) = 0;
  // Between two ranks: messages of one tag arrive in the order in which they were sent.
  virtual std::unique_ptr<Exchange> send(const at::Tensor& x, int to, int tag) = 0;
  virtual std::unique_ptr<Exchange> receive(const at::Tensor& x, int from, int tag) = 0;
};

}  // namespace posenc::parallel
