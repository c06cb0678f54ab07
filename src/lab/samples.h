// Samples of a task as tensors, with the places that are scored picked out.
#pragma once

#include <ATen/ATen.h>

#include "experiment/train_config.h"
#include "tasks/task.h"

namespace posenc::lab {

struct Samples {
  at::Tensor tokens;   // [B, T] int64
  at::Tensor places;   // [N] int64: scored places of the flattened [B T]
  at::Tensor targets;  // [N] int64
  [[nodiscard]] std::int64_t scored() const { return places.numel(); }
};

// Rows begin .. begin + rows of what fill() made.
Samples to_samples(const tasks::Batch& batch, std::int64_t begin, std::int64_t rows,
                   at::Device device);

// Positions of a training step under a policy: undefined where they are 0, 1, ....
at::Tensor training_positions(const experiment::TrainConfig& train, std::int64_t length,
                              std::uint64_t seed, std::int64_t step);

}  // namespace posenc::lab
