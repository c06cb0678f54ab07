// Cancellation of the operators' CPU kernels. This library has its own copy of core, so a program's
// Cancellation has no effect on it.
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
