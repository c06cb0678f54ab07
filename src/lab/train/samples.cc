#include "train/samples.h"

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "posenc/core/rng.h"

namespace posenc::train {
namespace {

// Which of a batch's places are scored, counted from its row `begin` on, and their targets.
struct Scored {
  std::vector<std::int64_t> places, targets;

  Scored(const tasks::Batch& batch, std::int64_t begin, std::int64_t rows) {
    const std::int64_t first = begin * batch.length;
    for (std::int64_t i = 0; i < rows * batch.length; ++i) {
      const std::int32_t target = batch.targets[first + i];
      if (target == tasks::kUnscored) continue;
      places.push_back(i);
      targets.push_back(target);
    }
  }
  // With places that are not scored here; different ones, so that their gradients do not wait for each other.
  void fill_up(std::int64_t to) {
    for (auto i = std::ssize(places); i < to; ++i) {
      places.push_back(i);
      targets.push_back(kIgnored);
    }
  }
};

// Writes one tensor after another into one.
class Packer {
 public:
  Packer(std::int64_t numbers, HostMemory memory)
      : all_(at::empty({numbers},
                       at::TensorOptions(at::kLong).pinned_memory(memory == HostMemory::kPinned))) {
  }
  template <class Iterator>
  at::Tensor add(Iterator values, at::IntArrayRef shape) {
    const std::int64_t count = c10::multiply_integers(shape);
    std::copy_n(values, count, all_.data_ptr<std::int64_t>() + used_);
    at::Tensor view = all_.narrow(0, used_, count).view(shape);
    used_ += count;
    return view;
  }
  [[nodiscard]] const at::Tensor& all() const { return all_; }

 private:
  at::Tensor all_;
  std::int64_t used_ = 0;
};

std::int64_t size_of(const std::vector<std::int64_t>& x) { return std::ssize(x); }

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

void fill_training_rows(const tasks::Task& task, const config::LabConfig& config,
                        const config::StageAt& place, tasks::Batch& batch) {
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

Samples to_samples(const tasks::Batch& batch, std::int64_t begin, std::int64_t rows,
                   at::Device device) {
  const Scored scored(batch, begin, rows);
  const std::int64_t count = size_of(scored.places);
  Packer packer(rows * batch.length + 2 * count, HostMemory::kPlain);
  const Samples here{packer.add(batch.tokens.begin() + begin * batch.length, {rows, batch.length}),
                     packer.add(scored.places.begin(), {count}),
                     packer.add(scored.targets.begin(), {count})};
  return {here.tokens.to(device), here.places.to(device), here.targets.to(device)};
}

std::int64_t padded_places(std::int64_t scored, std::int64_t places) {
  constexpr std::int64_t kSizes = 8;
  const std::int64_t grain = std::max<std::int64_t>(1, places / kSizes);
  return std::clamp<std::int64_t>((scored + grain - 1) / grain * grain, grain, places);
}

StepLayout StepLayout::of(at::Device device) {
  return device.is_cuda() ? StepLayout{.memory = HostMemory::kPinned, .padded = true}
                          : StepLayout{};
}

at::Tensor StepSamples::divisor_here() const { return all.select(0, 0).to(at::kFloat); }
at::Tensor StepSamples::rate_here() const { return all.view(at::kDouble).select(0, 1); }

StepSamples StepSamples::in(const at::Tensor& elsewhere) const {
  const auto view = [&](const at::Tensor& x) {
    return elsewhere.as_strided(x.sizes(), x.strides(), x.storage_offset());
  };
  StepSamples there = *this;
  there.all = elsewhere;
  for (Samples& part : there.parts) {
    part = {view(part.tokens), view(part.places), view(part.targets)};
  }
  return there;
}

at::Tensor training_positions(const config::TrainConfig& train, std::int64_t length,
                              std::uint64_t seed, std::int64_t step) {
  using config::PositionPolicy;
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

namespace {

// The rows of a step that are computed here, one part after another.
struct StepRows {
  std::vector<tasks::Batch> parts;
  std::vector<RowRange> ranges;

  StepRows(const tasks::Task& task, const config::LabConfig& config, const config::StageAt& place,
           const Pieces& pieces) {
    const std::int64_t parts_rows = place.stage.batch / config.train.accumulate;
    const std::int64_t rows = parts_rows / pieces.all;
    for (std::int64_t piece = pieces.first; piece < pieces.first + pieces.count; ++piece) {
      for (std::int64_t part = 0; part < config.train.accumulate; ++part) {
        config::StageAt here = place;
        here.first_row += part * parts_rows + piece * rows;
        tasks::Batch& batch = parts.emplace_back();
        batch.rows = rows;
        fill_training_rows(task, config, here, batch);
        ranges.push_back({piece * rows, parts_rows});
      }
    }
  }
};

// Picked out of each part, and filled up to one of a few numbers where steps are to have few shapes.
std::vector<Scored> scored_places(const StepRows& step, bool padded, StepSamples& made) {
  std::vector<Scored> scored;
  for (const tasks::Batch& batch : step.parts) {
    Scored& here = scored.emplace_back(batch, 0, batch.rows);
    made.scored += size_of(here.places);
    if (padded) here.fill_up(padded_places(size_of(here.places), batch.rows * batch.length));
  }
  return scored;
}

void pack(const StepRows& step, const std::vector<Scored>& scored, std::int64_t divisor,
          HostMemory memory, StepSamples& made) {
  std::int64_t numbers = 2;
  for (std::size_t i = 0; i < scored.size(); ++i) {
    numbers += step.parts[i].rows * step.parts[i].length + 2 * size_of(scored[i].places);
  }
  Packer packer(numbers, memory);
  const std::array<std::int64_t, 2> head = {divisor, std::bit_cast<std::int64_t>(made.rate)};
  packer.add(head.begin(), {2});
  for (std::size_t i = 0; i < scored.size(); ++i) {
    const tasks::Batch& batch = step.parts[i];
    const std::int64_t count = size_of(scored[i].places);
    made.parts.push_back({packer.add(batch.tokens.begin(), {batch.rows, batch.length}),
                          packer.add(scored[i].places.begin(), {count}),
                          packer.add(scored[i].targets.begin(), {count})});
  }
  made.all = packer.all();
}

}  // namespace

StepSamples step_samples(const tasks::Task& task, const config::LabConfig& config,
                         std::int64_t step, const StepLayout& layout,
                         const std::optional<Pieces>& pieces) {
  const config::StageAt place = config::stage_at(config.train, step);
  const StepRows rows(task, config, place, pieces.value_or(Pieces{}));
  StepSamples made{.step = step,
                   .all = {},
                   .parts = {},
                   .rows = rows.ranges,
                   .positions = training_positions(config.train, place.stage.length,
                                                   static_cast<std::uint64_t>(config.seed), step),
                   .tokens = place.stage.batch * place.stage.length,
                   .scored = 0,
                   .rate = config::learning_rate(config.train, step)};
  const std::vector<Scored> scored = scored_places(rows, layout.padded, made);
  const std::int64_t divisor = pieces ? made.tokens : std::max<std::int64_t>(made.scored, 1);
  pack(rows, scored, divisor, layout.memory, made);
  return made;
}

}  // namespace posenc::train
