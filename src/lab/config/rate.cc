#include "config/rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace posenc::config {
namespace {

// What the schedule leaves of the rate when this share of the steps after the warm-up is done.
double remaining(RateSchedule schedule, double done) {
  switch (schedule) {
    case RateSchedule::kCosine:
      return 0.5 * (1.0 + std::cos(std::numbers::pi * done));
    case RateSchedule::kLinear:
      return 1.0 - done;
    case RateSchedule::kConstant:
      break;
  }
  return 1.0;
}

}  // namespace

double learning_rate(const TrainConfig& train, std::int64_t step) {
  const auto total = static_cast<double>(total_steps(train));
  const double warmup = train.warmup < 1.0 ? train.warmup * total : std::min(train.warmup, total);
  const auto at = static_cast<double>(step);
  if (at + 1.0 <= warmup) return train.lr * (at + 1.0) / warmup;
  const double done = std::clamp((at - warmup) / std::max(total - warmup, 1.0), 0.0, 1.0);
  return train.min_lr + (train.lr - train.min_lr) * remaining(train.schedule, done);
}

StageAt stage_at(const TrainConfig& train, std::int64_t step) {
  StageAt found;
  for (const Stage& stage : stages(train)) {
    found.stage = stage;
    if (step < stage.steps) {
      found.first_row += step * stage.batch;
      return found;
    }
    step -= stage.steps;
    found.first_row += stage.steps * stage.batch;
    ++found.index;
  }
  return found;
}

}  // namespace posenc::config
