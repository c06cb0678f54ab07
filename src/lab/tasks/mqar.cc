#include "tasks/mqar.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tasks/generator.h"
#include "tasks/words.h"

namespace posenc::tasks {
namespace {

constexpr std::int32_t kBlank = 0;
enum AxisIndex : std::size_t { kTrain, kLonger, kMore };

// Slots without replacement with weight (slot + 1)^(power - 1), in the order in which they are
// drawn: an exponential waiting time per slot, first come first drawn (Efraimidis and Spirakis 2006).
class Slots {
 public:
  Slots(std::int64_t slots, double power) : waits_(static_cast<std::size_t>(slots)) {
    for (std::int64_t g = 1; g <= slots; ++g) {
      mean_.push_back(std::pow(static_cast<double>(g), 1.0 - power));
    }
  }
  // The first `count` of them stay valid until the next call.
  std::int64_t slot(std::size_t i) const { return waits_[i].second; }
  void draw_slots(std::size_t count, Draw& draw) {
    for (std::size_t g = 0; g < waits_.size(); ++g) {
      waits_[g] = {-std::log1p(-draw.uniform()) * mean_[g], static_cast<std::int64_t>(g)};
    }
    const auto middle = waits_.begin() + static_cast<std::ptrdiff_t>(count);
    std::nth_element(waits_.begin(), middle, waits_.end());
    std::sort(waits_.begin(), middle);
  }

 private:
  std::vector<double> mean_;
  std::vector<std::pair<double, std::int64_t>> waits_;
};

class MqarTask final : public Generator {
 public:
  MqarTask(const Mqar& config, TaskInfo info, std::vector<Axis> axes)
      : Generator(std::move(info), std::move(axes)), config_(config) {}

  [[nodiscard]] std::string token_text(std::int32_t token) const override {
    if (token == kBlank) return ".";
    if (token > 0 && token < first_value()) return fmt::format("k{}", token);
    return "v" + number_name(token, first_value(), info());
  }

 private:
  [[nodiscard]] std::int64_t pairs(const Request& request) const;
  void fill_rows(const Request& request) const override;
  [[nodiscard]] std::int32_t first_value() const {
    return static_cast<std::int32_t>(config_.vocabulary / 2);
  }

  Mqar config_;
};

std::int64_t MqarTask::pairs(const Request& request) const {
  if (request.axis != kMore) return config_.pairs;
  const double factor =
      static_cast<double>(request.length) / static_cast<double>(request.train_length);
  return std::max<std::int64_t>(1, std::llround(static_cast<double>(config_.pairs) * factor));
}

void MqarTask::fill_rows(const Request& request) const {
  const std::int64_t n = pairs(request);
  require_length(request.length, 4 * n, fmt::format("for {} pairs and their questions", n));
  if (n >= first_value()) {
    throw error(ErrorKind::kConflict,
                {.key = "pairs",
                 .rule = fmt::format("must be < {}, half of the vocabulary", first_value()),
                 .value = std::to_string(n)});
  }
  DistinctNumbers keys(first_value() - 1);
  DistinctNumbers values(first_value());
  Slots slots((request.length - 2 * n) / 2, config_.power);
  const auto count = static_cast<std::size_t>(n);
  for_each_row(request, [&](Row row, Draw& draw, std::uint64_t /*number*/) {
    for (std::size_t t = 2 * count; t < row.tokens.size(); ++t) {
      row.tokens[t] = config_.random_fillers ? 1 + draw.below(config_.vocabulary - 1) : kBlank;
    }
    slots.draw_slots(count, draw);
    for (std::size_t i = 0; i < count; ++i) {
      const std::int32_t key = 1 + keys.next(draw);
      const std::int32_t value = first_value() + values.next(draw);
      const std::size_t query = 2 * count + 2 * static_cast<std::size_t>(slots.slot(i));
      row.tokens[2 * i] = key;
      row.tokens[2 * i + 1] = value;
      row.tokens[query] = key;
      row.targets[query] = value;
    }
    keys.restart();
    values.restart();
  });
}

}  // namespace

std::unique_ptr<Task> make(const Mqar& config) {
  if (config.pairs >= config.vocabulary / 2) {
    throw conflict(Mqar::kTraits.name, "pairs",
                   fmt::format("must be < {}, half of the vocabulary", config.vocabulary / 2),
                   std::to_string(config.pairs));
  }
  TaskInfo info{.name = std::string(Mqar::kTraits.name),
                .vocabulary = config.vocabulary,
                .length = 64,
                .min_length = 4 * config.pairs};
  std::vector<Axis> axes = {{"train", "as in training", true},
                            {"longer", "as many pairs, a longer row"},
                            {"more", "pairs in proportion to the length"}};
  return std::make_unique<MqarTask>(config, std::move(info), std::move(axes));
}

}  // namespace posenc::tasks
