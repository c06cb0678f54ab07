// Samples of a task as tensors, with the places that are scored picked out.
#pragma once

#include <ATen/ATen.h>

#include <optional>
#include <vector>

#include "config/load.h"
#include "config/rate.h"
#include "tasks/task.h"

namespace posenc::train {

enum class HostMemory { kPlain, kPinned };  // copies from pinned memory do not wait for the GPU

struct Samples {
  at::Tensor tokens;   // [B, T] int64
  at::Tensor places;   // [N] int64: scored places of the flattened [B T]
  at::Tensor targets;  // [N] int64
  [[nodiscard]] std::int64_t scored() const { return places.numel(); }
};

// Rows begin .. begin + rows of what fill() made.
Samples to_samples(const tasks::Batch& batch, std::int64_t begin, std::int64_t rows,
                   at::Device device);

// The rows of a training step: new ones, or those of a fixed set in the order of their epoch.
void fill_training_rows(const tasks::Task& task, const config::LabConfig& config,
                        const config::StageAt& place, tasks::Batch& batch);

// Number `index` of a permutation of 0 .. size - 1 that is a function of the key alone.
std::uint64_t shuffled(std::uint64_t index, std::uint64_t size, std::uint64_t key);

// Positions of a training step under a policy: undefined where they are 0, 1, ....
at::Tensor training_positions(const config::TrainConfig& train, std::int64_t length,
                              std::uint64_t seed, std::int64_t step);

// The pieces of a step that one process computes: every part of the batch (train.accumulate of them) is cut into `all`
// pieces of consecutive rows, and these are `count` of them from `first` on.
struct Pieces {
  std::int64_t first = 0;
  std::int64_t count = 1;
  std::int64_t all = 1;
};

// Where the rows of a piece lie in their part: first .. first + its rows - 1 of `of`.
struct RowRange {
  std::int64_t first = 0;
  std::int64_t of = 0;
};

// What one step trains on: everything that changes from step to step is in one tensor, so that it takes one copy to
// bring it to a device.
struct StepSamples {
  std::int64_t step = 0;
  at::Tensor all;  // int64: what the loss is divided by, the bits of the rate, the parts
  std::vector<Samples>
      parts;  // views of it; train.accumulate of them for each piece, one piece after another
  std::vector<RowRange> rows;  // of each part
  at::Tensor positions;
  std::int64_t tokens = 0;  // of the whole step, in all processes
  std::int64_t scored = 0;  // of these parts
  double rate = 0.0;

  [[nodiscard]] at::Tensor divisor_here() const;  // float32 without dimensions, where `all` is
  [[nodiscard]] at::Tensor rate_here() const;     // float64 without dimensions
  // The same with `all` elsewhere: a tensor of its size, not copied.
  [[nodiscard]] StepSamples in(const at::Tensor& elsewhere) const;
};

// Target of a place that fills up a tensor: no loss, no gradient, never right.
constexpr std::int64_t kIgnored = -100;

// How a step lies in memory. Padded: places are filled up to one of a few numbers of them (padded_places), so that
// steps have few shapes.
struct StepLayout {
  HostMemory memory = HostMemory::kPlain;
  bool padded = false;

  static StepLayout of(at::Device device);
};
// Losses are divided by the number of scored places, or, where only some pieces are computed here, by the tokens of the
// whole step: the other places are not known yet.
StepSamples step_samples(const tasks::Task& task, const config::LabConfig& config,
                         std::int64_t step, const StepLayout& layout = {},
                         const std::optional<Pieces>& pieces = {});

// The next eighth of `places`; `scored` of them are wanted.
std::int64_t padded_places(std::int64_t scored, std::int64_t places);

}  // namespace posenc::train
