// Samples of a task as tensors, with the places that are scored picked out.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "experiment/load.h"
#include "experiment/rate.h"
#include "tasks/task.h"

namespace posenc::lab {

enum class HostMemory { kPlain, kPinned };  // copies from pinned memory do not wait for the GPU

struct Samples {
  at::Tensor tokens;   // [B, T] int64
  at::Tensor places;   // [N] int64: scored places of the flattened [B T]
  at::Tensor targets;  // [N] int64
  [[nodiscard]] std::int64_t scored() const { return places.numel(); }
};

// Rows begin .. begin + rows of what fill() made.
Samples host_samples(const tasks::Batch& batch, std::int64_t begin, std::int64_t rows,
                     HostMemory memory);
Samples moved(const Samples& samples, at::Device device);
// Both at once.
Samples to_samples(const tasks::Batch& batch, std::int64_t begin, std::int64_t rows,
                   at::Device device);

// The rows of a training step: new ones, or those of a fixed set in the order of their epoch.
void fill_training_rows(const tasks::Task& task, const experiment::LabConfig& config,
                        const experiment::StageAt& place, tasks::Batch& batch);

// Number `index` of a permutation of 0 .. size - 1 that is a function of the key alone.
std::uint64_t shuffled(std::uint64_t index, std::uint64_t size, std::uint64_t key);

// Positions of a training step under a policy: undefined where they are 0, 1, ....
at::Tensor training_positions(const experiment::TrainConfig& train, std::int64_t length,
                              std::uint64_t seed, std::int64_t step);

// What one step trains on, in the memory of the host.
struct StepSamples {
  std::int64_t step = 0;
  std::vector<Samples> parts;  // train.accumulate of them
  at::Tensor positions;
  std::int64_t tokens = 0;
  std::int64_t scored = 0;
};
StepSamples step_samples(const tasks::Task& task, const experiment::LabConfig& config,
                         std::int64_t step, HostMemory memory);

}  // namespace posenc::lab
