// Counts what the batches of one condition give, and turns the counts into figures.
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <map>
#include <vector>

#include "train/evaluate.h"
#include "train/samples.h"

namespace posenc::train {

// Of the scored places of a batch.
struct Scores {
  at::Tensor correct;  // [N] bool
  at::Tensor loss;     // [N] double
};

class Collector {
 public:
  // `row` has its names; finish() adds the figures.
  Collector(const tasks::Task& task, tasks::Condition condition, EvalRow row);
  void add(const tasks::Batch& batch, const Samples& samples, const Scores& scores);
  EvalRow finish();

 private:
  using RegionTallies = std::array<Tally, runs::kRegions.size()>;

  void add_answer(RegionTallies& row, std::int64_t position, bool correct, double loss);
  void add_depth(const tasks::Batch& batch, std::int64_t row);
  void choose_ranges();
  [[nodiscard]] std::vector<statistics::RowSum> row_sums(std::size_t region) const;
  [[nodiscard]] statistics::Estimate estimate(std::size_t region) const;
  void add_chances();
  [[nodiscard]] runs::ConditionTallies condition_tallies() const;

  const tasks::Task& task_;
  tasks::Condition condition_;
  EvalRow row_;
  std::vector<std::int64_t> edges_;
  std::vector<RegionTallies> rows_;
  std::vector<std::uint32_t> clusters_;
  std::map<std::int64_t, Tally> answers_;
};

}  // namespace posenc::train
