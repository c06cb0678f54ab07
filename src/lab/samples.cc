#include "lab/samples.h"

#include <algorithm>
#include <vector>

#include "posenc/core/rng.h"

namespace posenc::lab {
namespace {

at::Tensor empty_integers(at::IntArrayRef shape, HostMemory memory) {
  return at::empty(shape,
                   at::TensorOptions(at::kLong).pinned_memory(memory == HostMemory::kPinned));
}

at::Tensor host_integers(const std::vector<std::int64_t>& values, HostMemory memory) {
  at::Tensor tensor = empty_integers({static_cast<std::int64_t>(values.size())}, memory);
  std::copy(values.begin(), values.end(), tensor.data_ptr<std::int64_t>());
  return tensor;
}

// One round of a Feistel network on two halves of `bits` bits.
std::uint64_t feistel(std::uint64_t x, int bits, std::uint64_t key) {
  const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
  std::uint64_t left = x >> bits;
  std::uint64_t right = x & mask;
  for (std::uint64_t round = 0; round < 4; ++round) {
    const std::uint64_t next = left ^ (derived_seed(key + round, right) & mask);
    left = right;
    right = next;
  }
  return left << bits | right;
}

}  // namespace

// A Feistel network permutes the next power of four; walking on until the number is small enough permutes the set.
std::uint64_t shuffled(std::uint64_t index, std::uint64_t size, std::uint64_t key) {
  int bits = 1;
  while (bits < 31 && (std::uint64_t{1} << (2 * bits)) < size) ++bits;
  do {
    index = feistel(index, bits, key);
  } while (index >= size);
  return index;
}

void fill_training_rows(const tasks::Task& task, const experiment::LabConfig& config,
                        const experiment::StageAt& place, tasks::Batch& batch) {
  const tasks::Condition condition{
      .axis = "train", .length = place.stage.length, .train_length = train_length(config.train)};
  const auto seed = static_cast<std::uint64_t>(config.seed);
  const auto first = static_cast<std::uint64_t>(place.first_row);
  const auto size = static_cast<std::uint64_t>(config.train.dataset);
  if (size == 0) return task.fill(condition, seed, first, batch);
  tasks::Batch one;
  one.rows = 1;
  batch.length = condition.length;
  for (std::uint64_t r = first; r < first + static_cast<std::uint64_t>(batch.rows); ++r) {
    task.fill(condition, seed, shuffled(r % size, size, derived_seed(seed, r / size)), one);
    batch.tokens.insert(batch.tokens.end(), one.tokens.begin(), one.tokens.end());
    batch.targets.insert(batch.targets.end(), one.targets.begin(), one.targets.end());
  }
}

Samples host_samples(const tasks::Batch& batch, std::int64_t begin, std::int64_t rows,
                     HostMemory memory) {
  const std::int64_t first = begin * batch.length;
  const std::int64_t count = rows * batch.length;
  at::Tensor tokens = empty_integers({rows, batch.length}, memory);
  std::copy_n(batch.tokens.begin() + first, count, tokens.data_ptr<std::int64_t>());
  std::vector<std::int64_t> places;
  std::vector<std::int64_t> targets;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int32_t target = batch.targets[static_cast<std::size_t>(first + i)];
    if (target == tasks::kUnscored) continue;
    places.push_back(i);
    targets.push_back(target);
  }
  return {tokens, host_integers(places, memory), host_integers(targets, memory)};
}

Samples moved(const Samples& samples, at::Device device) {
  const auto move = [&](const at::Tensor& x) { return x.to(device, x.scalar_type(), true); };
  return {move(samples.tokens), move(samples.places), move(samples.targets)};
}

Samples to_samples(const tasks::Batch& batch, std::int64_t begin, std::int64_t rows,
                   at::Device device) {
  return moved(host_samples(batch, begin, rows, HostMemory::kPlain), device);
}

at::Tensor training_positions(const experiment::TrainConfig& train, std::int64_t length,
                              std::uint64_t seed, std::int64_t step) {
  using experiment::PositionPolicy;
  if (train.positions == PositionPolicy::kAsIs) return {};
  Rng rng(seed ^ 0x9e3779b97f4a7c15U, static_cast<std::uint64_t>(step));
  at::Tensor positions = at::empty({length}, at::kLong);
  auto* out = positions.data_ptr<std::int64_t>();
  if (train.positions == PositionPolicy::kShift) {
    const std::int64_t offset = rng.integer(0, train.position_range - length);
    for (std::int64_t i = 0; i < length; ++i) out[i] = offset + i;
    return positions;
  }
  // Each place of the range is taken with the probability that makes all subsets equally likely.
  std::int64_t taken = 0;
  for (std::int64_t place = 0; taken < length; ++place) {
    const std::int64_t left = train.position_range - place;
    if (rng.integer(0, left - 1) < length - taken) out[taken++] = place;
  }
  return positions;
}

StepSamples step_samples(const tasks::Task& task, const experiment::LabConfig& config,
                         std::int64_t step, HostMemory memory) {
  const experiment::StageAt place = experiment::stage_at(config.train, step);
  tasks::Batch batch;
  batch.rows = place.stage.batch;
  fill_training_rows(task, config, place, batch);
  StepSamples made{.step = step,
                   .parts = {},
                   .positions = training_positions(config.train, place.stage.length,
                                                   static_cast<std::uint64_t>(config.seed), step),
                   .tokens = batch.rows * batch.length};
  const std::int64_t rows = batch.rows / config.train.accumulate;
  for (std::int64_t part = 0; part < config.train.accumulate; ++part) {
    made.parts.push_back(host_samples(batch, part * rows, rows, memory));
    made.scored += made.parts.back().scored();
  }
  return made;
}

}  // namespace posenc::lab
