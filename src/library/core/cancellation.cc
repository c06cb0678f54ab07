#include "core/cancellation.h"

namespace posenc {
namespace {

std::atomic<const std::atomic<bool>*> current = nullptr;

}  // namespace

Cancellation::Cancellation(const std::atomic<bool>* flag) noexcept : before_(current.load()) {
  if (flag != nullptr) current = flag;
}
Cancellation::~Cancellation() { current = before_; }

const std::atomic<bool>* cancellation_flag() noexcept { return current.load(); }

void throw_if_cancelled() {
  const std::atomic<bool>* flag = cancellation_flag();
  if (flag != nullptr && flag->load(std::memory_order_relaxed)) throw Interrupted();
}

}  // namespace posenc
