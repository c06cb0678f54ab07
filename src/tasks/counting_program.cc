#include "tasks/counting_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "tasks/generator.h"
#include "tasks/words.h"

namespace posenc::tasks {
namespace {

using Overflow = CountingProgram::Overflow;

enum Token : std::int32_t { kPad, kAssign, kIncrement, kEnd, kPass, kPrint, kFirstVariable };
constexpr std::int64_t kSetTokens = 4;
constexpr std::int64_t kPrintTokens = 2;

// Odds of the operations on one axis, where a variable can be incremented and where none can.
struct Odds {
  Odds(double set, double increment, double pass)
      : set_at_all(set / (set + increment + pass)),
        increment_after_set(increment + pass > 0 ? increment / (increment + pass) : 0.0),
        set_or_pass(set / (set + pass)),
        set_or_pass_p(set / (set + pass)) {}

  Probability set_at_all;
  Probability increment_after_set;
  Probability set_or_pass;
  double set_or_pass_p;
};

// One program while it is written.
class Program {
 public:
  Program(const CountingProgram& config, std::int32_t zero, std::vector<std::int32_t>& tokens)
      : config_(config), zero_(zero), tokens_(tokens) {
    tokens_.clear();
    values_.fill(-1);
  }

  void pass() { add({kPass, kEnd}); }
  void set(Draw& draw) {
    const std::int32_t v = draw.below(config_.variables);
    values_[static_cast<std::size_t>(v)] = 0;
    add({kFirstVariable + v, kAssign, zero_, kEnd});
  }
  // False where no variable may be incremented.
  [[nodiscard]] bool can_increment() const {
    return pick([&](std::int32_t value) { return value >= 0 && value < config_.max_value; }).second;
  }
  void increment(Draw& draw) {
    const auto may = [&](std::int32_t value) { return value >= 0 && value < config_.max_value; };
    const std::int32_t v = chosen(may, draw);
    ++values_[static_cast<std::size_t>(v)];
    add({kFirstVariable + v, kIncrement, kEnd});
  }
  // The answer, as a value.
  std::int32_t print(Draw& draw) {
    const std::int32_t v = chosen([](std::int32_t value) { return value >= 0; }, draw);
    add({kPrint, kFirstVariable + v});
    return values_[static_cast<std::size_t>(v)];
  }
  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(tokens_.size()); }

 private:
  void add(std::initializer_list<std::int32_t> tokens) { tokens_.insert(tokens_.end(), tokens); }

  // How many variables have such a value, and whether any has.
  template <class May>
  [[nodiscard]] std::pair<std::int64_t, bool> pick(May may) const {
    const auto end = values_.begin() + config_.variables;
    const auto count = std::count_if(values_.begin(), end, may);
    return {count, count > 0};
  }
  template <class May>
  std::int32_t chosen(May may, Draw& draw) const {
    std::int32_t left = draw.below(pick(may).first);
    for (std::int32_t v = 0;; ++v) {
      if (may(values_[static_cast<std::size_t>(v)]) && left-- == 0) return v;
    }
  }

  const CountingProgram& config_;
  std::int32_t zero_;
  std::vector<std::int32_t>& tokens_;
  std::array<std::int32_t, 26> values_{};  // -1: not set yet
};

class CountingProgramTask final : public Generator {
 public:
  CountingProgramTask(const CountingProgram& config, TaskInfo info, std::vector<Axis> axes)
      : Generator(std::move(info), std::move(axes)),
        config_(config),
        pass_weights_{config.pass_weight, config.dense_pass_weight, config.sparse_pass_weight} {}

  [[nodiscard]] std::string token_text(std::int32_t token) const override;
  // print a
  [[nodiscard]] std::optional<Region> instruction(
      std::span<const std::int32_t> row) const override {
    const std::int64_t begin = std::find(row.begin(), row.end(), kPrint) - row.begin();
    if (begin + kPrintTokens > static_cast<std::int64_t>(row.size())) return std::nullopt;
    return Region{begin, begin + kPrintTokens};
  }

 private:
  void fill_rows(const Request& request) const override;
  std::int32_t write_program(const Odds& odds, std::int64_t room, Draw& draw,
                             std::vector<std::int32_t>& tokens) const;
  [[nodiscard]] std::int32_t zero() const {
    return static_cast<std::int32_t>(kFirstVariable + config_.variables);
  }

  CountingProgram config_;
  std::array<double, 3> pass_weights_;
};

// Operations before the first set, given that it is one of the first `operations`: a geometric
// number that is cut off.
std::int64_t passes_before_set(double p, std::int64_t operations, Draw& draw) {
  const double u = draw.uniform();
  if (p >= 1.0) return 0;
  const double log_q = std::log1p(-p);
  const double reached = -std::expm1(static_cast<double>(operations) * log_q);
  const auto passes = static_cast<std::int64_t>(std::log1p(-u * reached) / log_q);
  return std::clamp<std::int64_t>(passes, 0, operations - 1);
}

// Writes a whole program of at most `room` tokens and returns the value that it prints.
std::int32_t CountingProgramTask::write_program(const Odds& odds, std::int64_t room, Draw& draw,
                                                std::vector<std::int32_t>& tokens) const {
  Program program(config_, zero(), tokens);
  const std::int64_t operations =
      config_.min_operations + draw.below(config_.max_operations - config_.min_operations + 1);
  const std::int64_t before_print = room - kPrintTokens;
  const std::int64_t first_set_by = std::min(operations, (before_print - kSetTokens) / 2 + 1);
  const std::int64_t passes = passes_before_set(odds.set_or_pass_p, first_set_by, draw);
  for (std::int64_t k = 0; k < passes; ++k) program.pass();
  program.set(draw);
  for (std::int64_t k = passes + 1; k < operations; ++k) {
    if (program.size() + kSetTokens > before_print) break;
    const bool can_increment = program.can_increment();
    if (draw.happens(can_increment ? odds.set_at_all : odds.set_or_pass)) {
      program.set(draw);
    } else if (can_increment && draw.happens(odds.increment_after_set)) {
      program.increment(draw);
    } else {
      program.pass();
    }
  }
  return program.print(draw);
}

void CountingProgramTask::fill_rows(const Request& request) const {
  require_length(request.length, info().min_length, "for one assignment and the question");
  const Odds odds(config_.set_weight, config_.increment_weight, pass_weights_[request.axis]);
  const std::int64_t whole = kSetTokens * config_.max_operations + kPrintTokens;
  const std::int64_t room = config_.overflow == Overflow::kStop ? request.length : whole;
  std::vector<std::int32_t> program;
  for_each_row(request, [&](Row row, Draw& draw, std::uint64_t /*number*/) {
    const std::int32_t value = write_program(odds, room, draw, program);
    const std::size_t kept = std::min(program.size(), row.tokens.size());
    std::copy(program.end() - static_cast<std::ptrdiff_t>(kept), program.end(), row.tokens.begin());
    std::fill(row.tokens.begin() + static_cast<std::ptrdiff_t>(kept), row.tokens.end(), kPad);
    row.targets[kept - 1] = zero() + value;
  });
}

std::string CountingProgramTask::token_text(std::int32_t token) const {
  static constexpr std::array<std::string_view, kFirstVariable> kWords = {"<pad>", "=",    "++",
                                                                          ";",     "pass", "print"};
  if (token >= 0 && token < kFirstVariable) {
    return std::string(kWords[static_cast<std::size_t>(token)]);
  }
  if (token >= kFirstVariable && token < zero()) {
    return letter_name(token - kFirstVariable, config_.variables);
  }
  return number_name(token, zero(), info());
}

}  // namespace

std::unique_ptr<Task> make(const CountingProgram& config) {
  if (config.min_operations > config.max_operations) {
    throw conflict(CountingProgram::kTraits.name, "max_operations",
                   fmt::format("must be >= min_operations {}", config.min_operations),
                   std::to_string(config.max_operations));
  }
  TaskInfo info{.name = std::string(CountingProgram::kTraits.name),
                .vocabulary = kFirstVariable + config.variables + config.max_value + 1,
                .length = 512,
                .min_length = kSetTokens + kPrintTokens};
  std::vector<Axis> axes = {{"train", "as in training", true},
                            {"dense", "fewer idle steps"},
                            {"sparse", "more idle steps"}};
  return std::make_unique<CountingProgramTask>(config, std::move(info), std::move(axes));
}

}  // namespace posenc::tasks
