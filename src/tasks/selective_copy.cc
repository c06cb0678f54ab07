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
enum AxisIndex : std::size_t { kTrain, kLonger, kDense, kSparse };

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

 private:
  [[nodiscard]] std::int64_t copied(const Request& request) const;
  void fill_rows(const Request& request) const override;
  void fill_content(std::span<std::int32_t> content, std::int64_t n, Draw& draw,
                    std::span<std::int32_t> answers) const;

  SelectiveCopy config_;
};

// How many symbols a row holds: 2 n + b = length, b = blanks * n.
std::int64_t SelectiveCopyTask::copied(const Request& request) const {
  if (config_.copied > 0) return config_.copied;
  const bool longer = request.axis == kLonger;
  const std::int64_t length =
      longer ? std::min(request.length, request.train_length) : request.length;
  double blanks = config_.train_blanks;
  if (request.axis == kDense) blanks = config_.dense_blanks;
  if (request.axis == kSparse) blanks = config_.sparse_blanks;
  return static_cast<std::int64_t>(std::floor(static_cast<double>(length) / (2.0 + blanks)));
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
  const std::int64_t n = copied(request);
  if (n < 1 || 2 * n > request.length) {
    throw error(
        ErrorKind::kOutOfRange,
        {.key = "length",
         .rule = fmt::format("must be >= {} for {} symbols, said twice",
                             2 * std::max<std::int64_t>(n, 1), std::max<std::int64_t>(n, 1)),
         .value = std::to_string(request.length)});
  }
  const auto start = static_cast<std::size_t>(request.length - n);
  for_each_row(request, [&](Row row, Draw& draw, std::uint64_t /*number*/) {
    const std::span<std::int32_t> answers = row.targets.subspan(start);
    fill_content(row.tokens.first(start), n, draw, answers);
    for (std::size_t k = 0; k < answers.size(); ++k) {
      const bool said = config_.form == Form::kCope && k > 0;
      row.tokens[start + k] = said ? answers[k - 1] : kAsk;
    }
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
                .row_metric = false,
                .length = cope ? 768 : 4096 + 2 * resolved.copied,
                .min_length = std::max<std::int64_t>(
                    static_cast<std::int64_t>(std::ceil(per_symbol)), 2 * resolved.copied)};
  std::vector<Axis> axes = {{"train", "as in training", true},
                            {"longer", "as many symbols as in training, among more blanks"}};
  if (resolved.copied == 0) {
    axes.push_back({"dense", "fewer blanks per symbol"});
    axes.push_back({"sparse", "more blanks per symbol"});
  }
  return std::make_unique<SelectiveCopyTask>(resolved, std::move(info), std::move(axes));
}

}  // namespace posenc::tasks
