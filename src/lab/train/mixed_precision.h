// The precision that a config trains and evaluates in.
#pragma once

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>

#include "config/train_config.h"
#include "torch/torch_version.h"

namespace posenc::train {

// The precision of products on the GPU while it lives; weights are rounded to bfloat16 once in that time.
class MixedPrecision {
 public:
  explicit MixedPrecision(config::TrainPrecision precision) : precision_(precision) {
    if (precision_ == config::TrainPrecision::kBfloat16) set_autocast(true);
    if (precision_ == config::TrainPrecision::kTf32) set_tf32(true);
  }
  ~MixedPrecision() {
    if (precision_ == config::TrainPrecision::kTf32) set_tf32(false);
    if (precision_ != config::TrainPrecision::kBfloat16) return;
    at::autocast::clear_cache();
    set_autocast(false);
  }
  MixedPrecision(const MixedPrecision&) = delete;
  MixedPrecision& operator=(const MixedPrecision&) = delete;

 private:
  static void set_autocast(bool on) {
#if POSENC_TORCH_AT_LEAST(2, 4)
    at::autocast::set_autocast_dtype(at::kCUDA, at::kBFloat16);
    at::autocast::set_autocast_enabled(at::kCUDA, on);
#else
    at::autocast::set_autocast_gpu_dtype(at::kBFloat16);
    at::autocast::set_enabled(on);
#endif
  }
  static void set_tf32(bool on) {
    at::globalContext().setFloat32MatmulPrecision(on ? "high" : "highest");
  }
  config::TrainPrecision precision_;
};

}  // namespace posenc::train
