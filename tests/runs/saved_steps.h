// Checkpoints whose every byte follows from their step.
#pragma once

#include <cstring>

#include "runs/checkpoints.h"
#include "runs/run_case.h"

namespace posenc::testing {

struct StepTensors {
  explicit StepTensors(std::int64_t step, std::size_t count = 64)
      : weights(count, static_cast<float>(step) + 0.5F),
        moments(2 * count, 1.0 / (1.0 + static_cast<double>(step))) {}

  [[nodiscard]] std::vector<runs::TensorGroup> groups() const {
    const auto count = static_cast<std::int64_t>(weights.size());
    return {
        {"model", {{"w", weights::ElementType::kF32, {count}, std::as_bytes(std::span(weights))}}},
        {"optimizer",
         {{"w.m", weights::ElementType::kF64, {2, count}, std::as_bytes(std::span(moments))}}}};
  }

  std::vector<float> weights;
  std::vector<double> moments;
};

inline Value step_state(std::int64_t step) {
  return map_of({{"step", whole(step)}, {"best_loss", number(1.0 / 3.0)}});
}

inline void save_step(runs::Checkpoints& checkpoints, std::int64_t step,
                      std::optional<double> score = {}, std::size_t count = 64) {
  checkpoints.save(step, StepTensors(step, count).groups(), step_state(step), score);
}

// Is every byte that of the step?
inline void expect_step(const runs::Loaded& loaded, std::int64_t step, std::size_t count = 64) {
  const StepTensors want(step, count);
  EXPECT_EQ(loaded.step, step);
  EXPECT_EQ(loaded.state, step_state(step));
  const std::vector<std::byte> w = loaded.group("model").read(loaded.group("model").at("w"));
  const std::vector<std::byte> m =
      loaded.group("optimizer").read(loaded.group("optimizer").at("w.m"));
  EXPECT_TRUE(std::ranges::equal(w, std::as_bytes(std::span(want.weights))));
  EXPECT_TRUE(std::ranges::equal(m, std::as_bytes(std::span(want.moments))));
}

inline std::vector<std::int64_t> steps_of(const runs::CheckpointReader& checkpoints) {
  std::vector<std::int64_t> steps;
  for (const runs::CheckpointInfo& info : checkpoints.list()) steps.push_back(info.step);
  return steps;
}

}  // namespace posenc::testing
