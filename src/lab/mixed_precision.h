// The precision that a config trains and evaluates in.
#pragma once

#include <ATen/autocast_mode.h>

#include "experiment/train_config.h"
#include "torch/torch_version.h"

namespace posenc::lab {

// bfloat16 for products on the GPU while it lives.
class MixedPrecision {
 public:
  explicit MixedPrecision(experiment::TrainPrecision precision)
      : wanted_(precision == experiment::TrainPrecision::kBfloat16) {
    if (wanted_) set(true);
  }
  ~MixedPrecision() {
    if (!wanted_) return;
    at::autocast::clear_cache();
    set(false);
  }
  MixedPrecision(const MixedPrecision&) = delete;
  MixedPrecision& operator=(const MixedPrecision&) = delete;

 private:
  static void set(bool on) {
#if POSENC_TORCH_AT_LEAST(2, 4)
    at::autocast::set_autocast_dtype(at::kCUDA, at::kBFloat16);
    at::autocast::set_autocast_enabled(at::kCUDA, on);
#else
    at::autocast::set_autocast_gpu_dtype(at::kBFloat16);
    at::autocast::set_enabled(on);
#endif
  }
  bool wanted_;
};

}  // namespace posenc::lab
