#include "tasks/selective_counting.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "tasks/generator.h"
#include "tasks/words.h"

namespace posenc::tasks {
namespace {

using Labels = SelectiveCounting::Labels;
using Share = SelectiveCounting::Share;

enum Special : std::int32_t { kBos, kCount, kMod, kAnd, kSep, kQuery, kFirstClass };
enum AxisIndex : std::size_t { kTrain, kLonger, kMore, kBeyond };

// The classes that one row names, sorted, with places past the last that no class reaches.
struct Named {
  static constexpr std::int32_t kNoClass = std::numeric_limits<std::int32_t>::max();

  std::array<std::int32_t, 3> classes = {kNoClass, kNoClass, kNoClass};
  std::int32_t count = 0;

  [[nodiscard]] bool has(std::int32_t c) const {
    return c == classes[0] || c == classes[1] || c == classes[2];
  }
  // The n-th symbol, from 0, that is not among the named.
  [[nodiscard]] std::int32_t other(std::int32_t n) const {
    for (const std::int32_t c : classes) n += n >= c ? 1 : 0;
    return n;
  }
};

// How the content of one row is drawn and labelled.
struct RowRule {
  Probability density;
  std::int64_t most = 0;  // counted tokens
  bool modulo = false;
};

class SelectiveCountingTask final : public Generator {
 public:
  SelectiveCountingTask(const SelectiveCounting& config, TaskInfo info, std::vector<Axis> axes,
                        std::vector<std::size_t> kinds)
      : Generator(std::move(info), std::move(axes)), config_(config), kinds_(std::move(kinds)) {}

  [[nodiscard]] std::string token_text(std::int32_t token) const override;
  // The verb to <sep>.
  [[nodiscard]] std::optional<Region> instruction(
      std::span<const std::int32_t> row) const override {
    const auto end = std::find(row.begin(), row.end(), kSep);
    if (end == row.end()) return std::nullopt;
    return Region{1, end - row.begin() + 1};
  }
  // The verb: count or mod.
  [[nodiscard]] std::int32_t operation(std::span<const std::int32_t> row) const override {
    return row[1];
  }
  [[nodiscard]] std::string warning() const override {
    if (!config_.leak) return "";
    return "selective_counting has leak: true, so the answer is in the input where it is scored: "
           "scores measure copying, not counting";
  }

 private:
  void fill_rows(const Request& request) const override;
  Named draw_named(Draw& draw, Row row) const;
  RowRule draw_rule(std::size_t kind, double stretch, Draw& draw) const;
  std::int32_t draw_symbol(const Named& named, const RowRule& rule, std::int64_t count,
                           Draw& draw) const;
  [[nodiscard]] std::int32_t label(std::int64_t count, bool modulo) const;
  [[nodiscard]] std::int32_t first_label() const {
    return static_cast<std::int32_t>(kFirstClass + config_.classes + config_.noise);
  }

  SelectiveCounting config_;
  std::vector<std::size_t> kinds_;  // of the axes, since not every labelling has all of them
};

// <bos> count A and C <sep>
std::int64_t prompt_length(std::int64_t named) { return 2 * named + 2; }

// <query>, and the answer where it leaks
std::int64_t question_length(const SelectiveCounting& config) {
  if (config.answer == Answer::kRunning) return 0;
  return config.leak ? 2 : 1;
}

Named SelectiveCountingTask::draw_named(Draw& draw, Row row) const {
  Named named;
  const std::int64_t wanted =
      config_.min_named + draw.below(config_.max_named - config_.min_named + 1);
  std::size_t t = 2;  // after <bos> and the verb
  while (named.count < wanted) {
    const std::int32_t c = draw.below(config_.classes);
    if (named.has(c)) continue;
    if (named.count > 0) row.tokens[t++] = kAnd;
    row.tokens[t++] = kFirstClass + c;
    named.classes[named.count++] = c;
  }
  row.tokens[t] = kSep;
  std::sort(named.classes.begin(), named.classes.end());
  return named;
}

RowRule SelectiveCountingTask::draw_rule(std::size_t kind, double stretch, Draw& draw) const {
  RowRule rule;
  rule.modulo =
      config_.labels == Labels::kMixed ? draw.below(2) == 1 : config_.labels == Labels::kModulo;
  if (kind == kMore) rule.modulo = true;
  if (kind == kBeyond) rule.modulo = false;
  double density = config_.density;
  if (config_.density_max > 0.0) {
    density *= std::exp(draw.uniform() * std::log(config_.density_max / config_.density));
  }
  rule.density = Probability(kind == kLonger ? density / stretch : density);
  rule.most = rule.modulo ? std::numeric_limits<std::int64_t>::max() : config_.max_label;
  if (!rule.modulo && config_.cap > 0 && kind != kBeyond) {
    rule.most = std::min(rule.most, config_.cap);
  }
  return rule;
}

std::int32_t SelectiveCountingTask::draw_symbol(const Named& named, const RowRule& rule,
                                                std::int64_t count, Draw& draw) const {
  const bool full = count >= rule.most;
  const bool dense = draw.happens(rule.density);
  if (config_.share == Share::kCounted) {
    if (dense && !full) return named.classes[draw.below(named.count)];
    return named.other(draw.below(config_.classes - named.count + config_.noise));
  }
  if (dense) {
    const std::int32_t c = draw.below(config_.classes);
    if (!full || !named.has(c)) return c;
  }
  return static_cast<std::int32_t>(config_.classes) + draw.below(config_.noise);
}

std::int32_t SelectiveCountingTask::label(std::int64_t count, bool modulo) const {
  return first_label() + static_cast<std::int32_t>(modulo ? count % config_.modulo : count);
}

void SelectiveCountingTask::fill_rows(const Request& request) const {
  const std::int64_t question = question_length(config_);
  const std::int64_t around = prompt_length(config_.max_named) + question;
  require_length(request.length, around + 1, "for the instruction and one token");
  const std::size_t kind = kinds_[request.axis];
  if (kind == kLonger) {
    require_length(request.train_length, around + 1, "in training, which longer is measured by");
  }
  for_each_row(request, [&](Row row, Draw& draw, std::uint64_t /*number*/) {
    const Named named = draw_named(draw, row);
    const std::int64_t start = prompt_length(named.count);
    const std::int64_t end = request.length - question;
    const double stretch =
        std::max(1.0, static_cast<double>(end - start) /
                          static_cast<double>(request.train_length - question - start));
    const RowRule rule = draw_rule(kind, stretch, draw);
    row.tokens[0] = kBos;
    row.tokens[1] = rule.modulo ? kMod : kCount;
    std::int64_t count = 0;
    for (auto t = static_cast<std::size_t>(start); t < static_cast<std::size_t>(end); ++t) {
      const std::int32_t symbol = draw_symbol(named, rule, count, draw);
      count += named.has(symbol) ? 1 : 0;
      row.tokens[t] = kFirstClass + symbol;
      if (config_.answer == Answer::kRunning) row.targets[t] = label(count, rule.modulo);
    }
    if (config_.answer == Answer::kRunning) return;
    row.tokens[end] = kQuery;
    row.targets.back() = label(count, rule.modulo);
    if (config_.leak) row.tokens.back() = row.targets.back();
  });
}

std::string SelectiveCountingTask::token_text(std::int32_t token) const {
  static constexpr std::array<std::string_view, kFirstClass> kWords = {"<bos>", "count", "mod",
                                                                       "and",   "<sep>", "<query>"};
  if (token >= 0 && token < kFirstClass) return std::string(kWords[token]);
  const std::int64_t symbol = token - kFirstClass;
  if (symbol >= 0 && symbol < config_.classes) return class_name(symbol, config_.classes);
  if (symbol >= 0 && symbol < config_.classes + config_.noise) {
    return fmt::format("n{}", symbol - config_.classes);
  }
  return number_name(token, first_label(), info());
}

void validate(const SelectiveCounting& config) {
  const std::string_view scope = SelectiveCounting::kTraits.name;
  if (config.min_named > config.max_named || config.max_named > config.classes) {
    throw conflict(scope, "max_named",
                   fmt::format("must be between min_named {} and classes {}", config.min_named,
                               config.classes),
                   std::to_string(config.max_named));
  }
  if (config.share == Share::kObjects && config.noise == 0) {
    throw conflict(scope, "noise", "must be >= 1 where density is the share of objects", "0");
  }
  if (config.noise == 0 && config.classes == config.max_named) {
    throw conflict(scope, "classes", "must leave a class that is not named",
                   std::to_string(config.classes), "add a class, or noise");
  }
  if (config.density_max > 0.0 && config.density_max < config.density) {
    throw conflict(scope, "density_max", fmt::format("must be >= density {}", config.density),
                   fmt::format("{}", config.density_max));
  }
  if (config.leak && config.answer == Answer::kRunning) {
    throw conflict(scope, "leak", "must be false where answer is running", "true",
                   "set answer: final");
  }
  if (config.labels != Labels::kModulo && config.cap > config.max_label) {
    throw conflict(scope, "cap", fmt::format("must be <= max_label {}", config.max_label),
                   std::to_string(config.cap));
  }
}

}  // namespace

std::unique_ptr<Task> make(const SelectiveCounting& config) {
  validate(config);
  std::vector<Axis> axes = {
      {"train", "as in training", true},
      {"longer", "sparser by the factor of length, so that labels stay in the trained range"}};
  std::vector<std::size_t> kinds = {kTrain, kLonger};
  std::int64_t numbers = 0;
  if (config.labels != Labels::kRaw) {
    axes.push_back(
        {"more", "density as trained: more counted items, labelled modulo m", false, true});
    kinds.push_back(kMore);
    numbers = config.modulo;
  }
  if (config.labels != Labels::kModulo) {
    axes.push_back(
        {"beyond", "density as trained, no cap: raw labels past the trained ones", false, true});
    kinds.push_back(kBeyond);
    numbers = std::max(numbers, config.max_label + 1);
  }
  TaskInfo info{.name = std::string(SelectiveCounting::kTraits.name),
                .vocabulary = kFirstClass + config.classes + config.noise + numbers,
                .length = 32,
                .min_length = prompt_length(config.max_named) + question_length(config) + 1};
  return std::make_unique<SelectiveCountingTask>(config, std::move(info), std::move(axes),
                                                 std::move(kinds));
}

}  // namespace posenc::tasks
