// Autocast to bfloat16 for a scope.
#pragma once

#include <ATen/autocast_mode.h>

#include "torch/torch_version.h"

namespace posenc::testing {

// On CPU and GPU, while it lives.
class Autocast {
 public:
  Autocast() { set(true); }
  ~Autocast() {
    set(false);
    at::autocast::clear_cache();
  }
  Autocast(Autocast&&) = delete;
  Autocast& operator=(Autocast&&) = delete;

 private:
  static void set(bool on) {
#if POSENC_TORCH_AT_LEAST(2, 4)
    for (const auto device : {at::kCPU, at::kCUDA}) {
      at::autocast::set_autocast_dtype(device, at::kBFloat16);
      at::autocast::set_autocast_enabled(device, on);
    }
#else
    at::autocast::set_autocast_cpu_dtype(at::kBFloat16);
    at::autocast::set_cpu_enabled(on);
#endif
  }
};

}  // namespace posenc::testing
