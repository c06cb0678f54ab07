#include "torch/cancellation.h"

namespace posenc::ops {

KernelCancellation::KernelCancellation(const std::atomic<bool>* flag)
    : scope_(std::make_unique<Cancellation>(flag)) {}
KernelCancellation::~KernelCancellation() = default;

}  // namespace posenc::ops
