#include "tasks/selective_copy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tasks/generator.h"
#include "tasks/words.h"

namespace posenc::tasks {
namespace {

using Form = SelectiveCopy::Form;

enum Token : std::int32_t { kBlank, kAsk, kFirstSymbol };  // kAsk: the mark | or a marker ?
constexpr std::size_t kTrain = 0;                          // the first axis

class SelectiveCopyTask final : public Generator {
 public:
  SelectiveCopyTask(const SelectiveCopy& config, TaskInfo info, std::vector<Axis> axes)
      : Generator(std::move(info), std::move(axes)), config_(config) {}

  [[nodiscard]] std::string token_text(std::int32_t token) const override {
    if (token == kBlank) return ".";
    if (token == kAsk) return config_.form == Form::kCope ? "|" : "?";
    if (token >= kFirstSymbol && token < info().vocabulary) {
      return letter_name(token - kFirstSymbol, config_.symbols);
    }
    return number_name(token, static_cast<std::int32_t>(info().vocabulary), info());  // an error
  }
  [[nodiscard]] std::int64_t natural_length(std::string_view axis,
                                            std::int64_t train_length) const override;

 private:
  // Symbols of a row: 2 n + b = train_length with b = train_blanks * n.
  [[nodiscard]] std::int64_t copied(std::int64_t train_length) const;
  void fill_rows(const Request& request) const override;
  void fill_content(std::span<std::int32_t> content, std::int64_t n, Draw& draw,
                    std::span<std::int32_t> answers) const;

  SelectiveCopy config_;
};

std::int64_t SelectiveCopyTask::copied(std::int64_t train_length) const {
  if (config_.copied > 0) return config_.copied;
  return static_cast<std::int64_t>(
      std::floor(static_cast<double>(train_length) / (2.0 + config_.train_blanks)));
}

std::int64_t SelectiveCopyTask::natural_length(std::string_view axis,
                                               std::int64_t train_length) const {
  if (axis != "dense" && axis != "sparse") return train_length;
  const double blanks = axis == "dense" ? config_.dense_blanks : config_.sparse_blanks;
  const std::int64_t n = copied(train_length);
  return 2 * n + std::llround(blanks * static_cast<double>(n));
}

// Each choice of n places is equally likely: the k-th of the places left is taken with probability
// (symbols left) / (places left).
void SelectiveCopyTask::fill_content(std::span<std::int32_t> content, std::int64_t n, Draw& draw,
                                     std::span<std::int32_t> answers) const {
  std::int64_t left = n;
  std::size_t copied = 0;
  for (std::size_t t = 0; t < content.size(); ++t) {
    if (draw.below(static_cast<std::int64_t>(content.size() - t)) >= left) {
      content[t] = kBlank;
      continue;
    }
    --left;
    content[t] = kFirstSymbol + draw.below(config_.symbols);
    answers[copied++] = content[t];
  }
}

void SelectiveCopyTask::fill_rows(const Request& request) const {
  const std::int64_t trained = request.axis == kTrain ? request.length : request.train_length;
  require_length(trained, info().min_length, "for symbols, said twice, and their blanks");
  const std::int64_t n = copied(trained);
  require_length(request.length, 2 * n, fmt::format("for {} symbols, said twice", n));
  const auto start = static_cast<std::size_t>(request.length - n);
  std::vector<std::int32_t> answers(n);
  for_each_row(request, [&](Row row, Draw& draw, std::uint64_t /*number*/) {
    fill_content(row.tokens.first(start), n, draw, answers);
    write_answers(row, start, kAsk, answers, kBlank);
    if (config_.form == Form::kMamba) std::fill_n(row.tokens.begin() + request.length - n, n, kAsk);
  });
}

}  // namespace

std::unique_ptr<Task> make(const SelectiveCopy& config) {
  SelectiveCopy resolved = config;
  const bool cope = config.form == Form::kCope;
  if (!cope && config.copied == 0) resolved.copied = 16;
  const double per_symbol = 2.0 + (resolved.copied > 0 ? 0.0 : config.train_blanks);
  TaskInfo info{.name = std::string(SelectiveCopy::kTraits.name),
                .vocabulary = kFirstSymbol + config.symbols,
                .metric = Metric::kError,
                .row_metric = true,
                .length = cope ? 768 : 4096 + 2 * resolved.copied,
                .min_length = std::max<std::int64_t>(
                    static_cast<std::int64_t>(std::ceil(per_symbol)), 2 * resolved.copied)};
  std::vector<Axis> axes = {{"train", "as in training", true},
                            {"longer", "as many symbols as in training, among more blanks"}};
  if (resolved.copied == 0) {
    axes.push_back({"dense", "as many symbols as in training, among fewer blanks", false, true});
    axes.push_back({"sparse", "as many symbols as in training, among more blanks", false, true});
  }
  return std::make_unique<SelectiveCopyTask>(resolved, std::move(info), std::move(axes));
}

}  // namespace posenc::tasks
