#include "tasks/n_back.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tasks/generator.h"
#include "tasks/words.h"

namespace posenc::tasks {
namespace {

enum Token : std::int32_t { kFiller, kAsk, kFirstVariable };

// The last `back` values of every variable.
class Histories {
 public:
  Histories(std::int64_t variables, std::int64_t back)
      : back_(static_cast<std::size_t>(back)),
        values_(static_cast<std::size_t>(variables) * back_),
        assigned_(static_cast<std::size_t>(variables)) {}

  void clear() {
    std::fill(assigned_.begin(), assigned_.end(), 0);
    known_.clear();
  }
  void assign(std::int32_t variable, std::int32_t value) {
    const auto v = static_cast<std::size_t>(variable);
    values_[v * back_ + assigned_[v] % back_] = value;
    if (++assigned_[v] == back_) known_.push_back(variable);
  }
  // The oldest value that is kept is the one `back` assignments ago.
  [[nodiscard]] std::int32_t recall(std::int32_t variable) const {
    const auto v = static_cast<std::size_t>(variable);
    return values_[v * back_ + assigned_[v] % back_];
  }
  // Variables that have had enough values to be asked for.
  [[nodiscard]] const std::vector<std::int32_t>& known() const { return known_; }

 private:
  std::size_t back_;
  std::vector<std::int32_t> values_;
  std::vector<std::size_t> assigned_;
  std::vector<std::int32_t> known_;
};

class NBackTask final : public Generator {
 public:
  NBackTask(const NBack& config, TaskInfo info, std::vector<Axis> axes)
      : Generator(std::move(info), std::move(axes)),
        config_(config),
        fillers_{config.filler, config.filler, config.dense_filler, config.sparse_filler} {}

  [[nodiscard]] std::string token_text(std::int32_t token) const override {
    if (token == kFiller) return ".";
    if (token == kAsk) return "?";
    if (token >= kFirstVariable && token < zero()) {
      return letter_name(token - kFirstVariable, config_.variables);
    }
    return number_name(token, zero(), info());
  }

 private:
  void fill_rows(const Request& request) const override;
  void assign(std::int32_t variable, std::size_t t, Row row, Histories& histories,
              Draw& draw) const;
  void ask(std::size_t t, Row row, const Histories& histories, Draw& draw) const;
  [[nodiscard]] std::int32_t zero() const {
    return static_cast<std::int32_t>(kFirstVariable + config_.variables);
  }

  NBack config_;
  std::array<double, 4> fillers_;  // by axis
};

void NBackTask::assign(std::int32_t variable, std::size_t t, Row row, Histories& histories,
                       Draw& draw) const {
  const std::int32_t value = draw.below(config_.values);
  histories.assign(variable, value);
  row.tokens[t] = kFirstVariable + variable;
  row.tokens[t + 1] = zero() + value;
}

void NBackTask::ask(std::size_t t, Row row, const Histories& histories, Draw& draw) const {
  const auto& known = histories.known();
  const std::int32_t variable = known[draw.below(std::ssize(known))];
  row.tokens[t] = kAsk;
  row.tokens[t + 1] = kFirstVariable + variable;
  row.targets[t + 1] = zero() + histories.recall(variable);
}

void NBackTask::fill_rows(const Request& request) const {
  require_length(request.length, info().min_length, "for the first values and a question");
  const double filler_share = fillers_[request.axis];
  const Probability filler(filler_share);
  const Probability question(
      filler_share < 1.0 ? std::min(1.0, config_.question / (1.0 - filler_share)) : 0.0);
  Histories histories(config_.variables, config_.back);
  for_each_row(request, [&](Row row, Draw& draw, std::uint64_t /*number*/) {
    histories.clear();
    const std::size_t last = row.tokens.size() / 2 * 2 - 2;
    const std::int32_t first = draw.below(config_.variables);
    for (std::size_t t = 0; t <= last; t += 2) {
      if (t < 2 * static_cast<std::size_t>(config_.back)) {
        assign(first, t, row, histories, draw);
      } else if (t != last && draw.happens(filler)) {
        row.tokens[t] = row.tokens[t + 1] = kFiller;
      } else if (t == last || draw.happens(question)) {
        ask(t, row, histories, draw);
      } else {
        assign(draw.below(config_.variables), t, row, histories, draw);
      }
    }
    if (last + 2 < row.tokens.size()) row.tokens.back() = kFiller;
  });
}

}  // namespace

std::unique_ptr<Task> make(const NBack& config) {
  const double most = std::max({config.filler, config.dense_filler, config.sparse_filler});
  if (config.question + most > 1.0) {
    throw conflict(NBack::kTraits.name, "question",
                   fmt::format("and filler (at most {}) together must be <= 1", most),
                   fmt::format("{}", config.question));
  }
  TaskInfo info{.name = std::string(NBack::kTraits.name),
                .vocabulary = kFirstVariable + config.variables + config.values,
                .length = 64,
                .min_length = 2 * config.back + 2};
  std::vector<Axis> axes = {{"train", "as in training", true},
                            {"longer", "a longer row"},
                            {"dense", "fewer fillers between the assignments", false, true},
                            {"sparse", "more fillers between the assignments", false, true}};
  return std::make_unique<NBackTask>(config, std::move(info), std::move(axes));
}

}  // namespace posenc::tasks
