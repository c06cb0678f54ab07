// Cancellation of the operators' CPU kernels. This library holds a copy of core of its own, which the
// Cancellation of a program that links it does not reach.
#pragma once

#include <atomic>
#include <memory>

#include "core/cancellation.h"

namespace posenc::ops {

// While one lives, loops of CPU kernels end once the flag is up; their output is to be discarded.
class KernelCancellation {
 public:
  explicit KernelCancellation(const std::atomic<bool>* flag);
  ~KernelCancellation();
  KernelCancellation(KernelCancellation&&) = delete;
  KernelCancellation& operator=(KernelCancellation&&) = delete;

 private:
  std::unique_ptr<Cancellation> scope_;
};

}  // namespace posenc::ops
