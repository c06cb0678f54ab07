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

enum Token : std::int32_t { kPad, kAssign, kEnd, kIncrement, kPass, kPrint, kFirstVariable };
constexpr std::int64_t kSetTokens = 4;
constexpr std::int64_t kPrintTokens = 2;

// Of the operations on one axis.
struct Weights {
  double set = 0.0;
  double increment = 0.0;
  double pass = 0.0;

  // The probability that one of the first operations is a set, while only set and pass can happen.
  [[nodiscard]] double set_within(std::int64_t operations) const {
    return -std::expm1(static_cast<double>(operations) * log_no_set());
  }
  [[nodiscard]] double log_no_set() const { return std::log1p(-set / (set + pass)); }
};

// One program while it is written.
class Program {
 public:
  Program(const CountingProgram& config, std::int32_t zero, std::vector<std::int32_t>& tokens)
      : config_(config), zero_(zero), tokens_(tokens) {
    tokens_.clear();
    values_.fill(-1);
  }

  void pass() { add({kPass}); }
  void set(Draw& draw) {
    const std::int32_t v = draw.below(config_.variables);
    values_[v] = 0;
    add({kFirstVariable + v, kAssign, zero_, kEnd});
  }
  // An operation after the first set. Drawing again when the chosen variable is full leaves the
  // increment the share of the set variables that are not full.
  void step(const Weights& weights, Draw& draw) {
    const auto open = [&](std::int32_t value) { return value >= 0 && value < config_.max_value; };
    const double increment =
        weights.increment * static_cast<double>(count(open)) / static_cast<double>(count(is_set));
    const double u = draw.uniform() * (weights.set + weights.pass + increment);
    if (u < weights.set) return set(draw);
    if (u < weights.set + weights.pass || increment == 0.0) return pass();
    const std::int32_t v = chosen(open, draw);
    ++values_[v];
    add({kFirstVariable + v, kIncrement});
  }
  // The answer, as a value.
  std::int32_t print(Draw& draw) {
    const std::int32_t v = chosen(is_set, draw);
    add({kPrint, kFirstVariable + v});
    return values_[v];
  }
  [[nodiscard]] std::int64_t size() const { return std::ssize(tokens_); }

 private:
  static bool is_set(std::int32_t value) { return value >= 0; }
  void add(std::initializer_list<std::int32_t> tokens) { tokens_.insert(tokens_.end(), tokens); }

  // How many variables have such a value.
  template <class May>
  [[nodiscard]] std::int64_t count(May may) const {
    return std::count_if(values_.begin(), values_.begin() + config_.variables, may);
  }
  template <class May>
  std::int32_t chosen(May may, Draw& draw) const {
    std::int32_t left = draw.below(count(may));
    for (std::int32_t v = 0;; ++v) {
      if (may(values_[v]) && left-- == 0) return v;
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
    if (begin + kPrintTokens > std::ssize(row)) return std::nullopt;
    return Region{begin, begin + kPrintTokens};
  }

 private:
  void fill_rows(const Request& request) const override;
  [[nodiscard]] std::int64_t draw_operations(const Weights& weights, Draw& draw) const;
  std::int32_t write_program(const Weights& weights, std::int64_t room, Draw& draw,
                             std::vector<std::int32_t>& tokens) const;
  [[nodiscard]] std::int32_t zero() const {
    return static_cast<std::int32_t>(kFirstVariable + config_.variables);
  }

  CountingProgram config_;
  std::array<double, 3> pass_weights_;
};

// A program without a set is drawn again: the longer it is, the likelier it is to have one.
std::int64_t CountingProgramTask::draw_operations(const Weights& weights, Draw& draw) const {
  const double most = weights.set_within(config_.max_operations);
  for (;;) {
    const std::int64_t operations =
        config_.min_operations + draw.below(config_.max_operations - config_.min_operations + 1);
    if (draw.uniform() * most < weights.set_within(operations)) return operations;
  }
}

// Passes before the first set, given that it is one of the first `operations`: a geometric number
// that is cut off.
std::int64_t passes_before_set(const Weights& weights, std::int64_t operations, Draw& draw) {
  const double u = draw.uniform();
  if (weights.pass == 0.0) return 0;
  const double passes = std::log1p(-u * weights.set_within(operations)) / weights.log_no_set();
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(passes), 0, operations - 1);
}

// Writes a whole program of at most `room` tokens and returns the value that it prints.
std::int32_t CountingProgramTask::write_program(const Weights& weights, std::int64_t room,
                                                Draw& draw,
                                                std::vector<std::int32_t>& tokens) const {
  Program program(config_, zero(), tokens);
  const std::int64_t operations = draw_operations(weights, draw);
  const std::int64_t before_print = room - kPrintTokens;
  const std::int64_t first_set_by = std::min(operations, before_print - kSetTokens + 1);
  const std::int64_t passes = passes_before_set(weights, first_set_by, draw);
  for (std::int64_t k = 0; k < passes; ++k) program.pass();
  program.set(draw);
  for (std::int64_t k = passes + 1; k < operations; ++k) {
    if (program.size() + kSetTokens > before_print) break;
    program.step(weights, draw);
  }
  return program.print(draw);
}

void CountingProgramTask::fill_rows(const Request& request) const {
  require_length(request.length, info().min_length, "for one assignment and the question");
  const Weights weights{config_.set_weight, config_.increment_weight, pass_weights_[request.axis]};
  const std::int64_t whole = kSetTokens * config_.max_operations + kPrintTokens;
  const std::int64_t room = config_.overflow == Overflow::kStop ? request.length : whole;
  std::vector<std::int32_t> program;
  for_each_row(request, [&](Row row, Draw& draw, std::uint64_t /*number*/) {
    const std::int32_t value = write_program(weights, room, draw, program);
    const std::size_t kept = std::min(program.size(), row.tokens.size());
    std::copy(program.end() - static_cast<std::ptrdiff_t>(kept), program.end(), row.tokens.begin());
    std::fill(row.tokens.begin() + static_cast<std::ptrdiff_t>(kept), row.tokens.end(), kPad);
    row.targets[kept - 1] = zero() + value;
  });
}

std::string CountingProgramTask::token_text(std::int32_t token) const {
  static constexpr std::array<std::string_view, kFirstVariable> kWords = {
      "<pad>", "=", ";", "++;", "pass;", "print"};
  if (token >= 0 && token < kFirstVariable) {
    return std::string(kWords[token]);
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
                            {"dense", "fewer idle steps", false, true},
                            {"sparse", "more idle steps", false, true}};
  return std::make_unique<CountingProgramTask>(config, std::move(info), std::move(axes));
}

}  // namespace posenc::tasks
