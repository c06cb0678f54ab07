// A model that can be stopped between its layers and within its kernels, forward and backward.
#pragma once

#include <atomic>

#include "core/cancellation.h"
#include "torch/cancellation.h"

namespace posenc::model {

// While one lives and the flag is up, a Transformer and its backward pass throw Interrupted. The numbers of
// the last layers of a backward pass may be incomplete without that: throw_if_cancelled() before they are used.
class Interruptible {
 public:
  explicit Interruptible(const std::atomic<bool>* stop) : layers_(stop), kernels_(stop) {}

 private:
  Cancellation layers_;
  ops::KernelCancellation kernels_;
};

}  // namespace posenc::model
