// The learning rate of a step, and the stage it is in.
#pragma once

#include "config/train_config.h"

namespace posenc::config {

// Rises linearly over the warm-up, then follows the schedule down to min_lr at the last step. step is
// counted from 0.
double learning_rate(const TrainConfig& train, std::int64_t step);

// Where a step stands in the curriculum, and how many samples the steps before it took.
struct StageAt {
  Stage stage;
  std::int64_t index = 0;
  std::int64_t first_row = 0;
};
StageAt stage_at(const TrainConfig& train, std::int64_t step);

}  // namespace posenc::config
