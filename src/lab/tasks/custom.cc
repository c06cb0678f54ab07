#include "tasks/custom.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_map>

#include "system/sha256.h"
#include "tasks/examples.h"
#include "tasks/generator.h"
#include "tasks/words.h"

namespace posenc::tasks {
namespace {

using Examples = std::vector<Example>;
constexpr std::size_t kLonger = 1;  // the second axis

struct ExampleSplit {
  std::string content_hash;
  bool text = true;
  Examples train;
  Examples validation;
  Examples test;

  [[nodiscard]] const Examples& of(Split split) const {
    if (split == Split::kTrain) return train;
    return split == Split::kValidation ? validation : test;
  }
};

Error failure(std::string key, std::string rule, std::string value, std::string hint) {
  return conflict(Custom::kTraits.name, std::move(key), std::move(rule), std::move(value),
                  std::move(hint));
}

// In the order of the hash, so that the first rows of an evaluation are a fair sample.
void shuffle(Examples& examples) {
  std::stable_sort(examples.begin(), examples.end(), [](const Example& a, const Example& b) {
    return mixed(a.input_hash) < mixed(b.input_hash);
  });
}

void require_apart(const ExampleSplit& split, const Custom& config) {
  std::unordered_map<std::uint64_t, std::int64_t> lines;
  for (const Examples* known : {&split.train, &split.validation}) {
    for (const Example& example : *known) lines.emplace(example.input_hash, example.line);
  }
  for (const Example& example : split.test) {
    const auto found = lines.find(example.input_hash);
    if (found == lines.end()) continue;
    throw failure("test_path",
                  fmt::format("must share no input with path, but line {} has the input of line {} "
                              "of {}",
                              example.line, found->second, config.path),
                  config.test_path, "remove it from one file, or give path alone and test_share");
  }
}

// Where the examples of `path` go: from 0 those to report, then those to choose by, then training.
Examples& side_of(const Example& example, const Custom& config, ExampleSplit& split) {
  const double place = static_cast<double>(example.input_hash) * 0x1.0p-64;
  const double reported = config.test_path.empty() ? config.test_share : 0.0;
  if (place < reported) return split.test;
  return place < reported + config.validation_share ? split.validation : split.train;
}

ExampleSplit read_split(const Custom& config) {
  if (config.path.empty()) {
    throw failure("path", "must name a JSONL file", "",
                  R"(one {"input": ..., "answer": ...} a line)");
  }
  ExampleFile file = read_examples(config.path);
  ExampleSplit split{sha256_of_file(config.path), file.text, {}, {}, {}};
  for (Example& example : file.examples) {
    Examples& side = side_of(example, config, split);
    side.push_back(std::move(example));
  }
  if (!config.test_path.empty()) {
    ExampleFile test = read_examples(config.test_path);
    if (!test.examples.empty() && test.text != file.text) {
      throw failure("test_path", "must hold text or integers, as path does", config.test_path, "");
    }
    split.test = std::move(test.examples);
    split.content_hash = sha256_hex(split.content_hash + sha256_of_file(config.test_path));
    require_apart(split, config);
  }
  if (split.train.empty()) {
    throw failure("path", "must hold examples to train on", config.path, "");
  }
  for (Examples* examples : {&split.train, &split.validation, &split.test}) shuffle(*examples);
  return split;
}

class CustomTask final : public Generator {
 public:
  CustomTask(ExampleSplit split, TaskInfo info, std::vector<Axis> axes)
      : Generator(std::move(info), std::move(axes)), split_(std::move(split)) {}

  [[nodiscard]] std::string token_text(std::int32_t token) const override {
    if (token == separator()) return "<sep>";
    if (token == pad()) return "<pad>";
    if (split_.text && token >= 0 && token < separator()) return byte_name(token);
    return number_name(token, 0, info());
  }
  [[nodiscard]] std::string content_hash() const override { return split_.content_hash; }
  [[nodiscard]] std::optional<std::int64_t> rows(const Condition& condition) const override {
    if (condition.split == Split::kTrain) return std::nullopt;
    return static_cast<std::int64_t>(fitting(checked(condition)).size());
  }

 private:
  [[nodiscard]] std::int32_t pad() const {
    return static_cast<std::int32_t>(info().vocabulary - 1);
  }
  [[nodiscard]] std::int32_t separator() const { return pad() - 1; }
  // The examples that the condition asks for, or an Error where there are none.
  [[nodiscard]] std::vector<const Example*> fitting(const Request& request) const;
  void fill_rows(const Request& request) const override;

  ExampleSplit split_;
};

std::vector<const Example*> CustomTask::fitting(const Request& request) const {
  const std::int64_t above =
      request.axis == kLonger && request.length > request.train_length ? request.train_length : 0;
  std::vector<const Example*> found;
  for (const Example& example : split_.of(request.split)) {
    const std::int64_t positions = example.positions();
    if (positions > above && positions <= request.length) found.push_back(&example);
  }
  if (!found.empty()) return found;
  constexpr std::array<std::string_view, 3> kHints = {"", "raise validation_share",
                                                      "raise test_share, or name a test_path"};
  throw error(ErrorKind::kOutOfRange,
              {.key = "length",
               .rule = fmt::format("must leave {} examples of {} to {} positions",
                                   split_name(request.split), above + 1, request.length),
               .value = std::to_string(request.length),
               .hint = std::string(kHints[static_cast<std::size_t>(request.split)])});
}

void CustomTask::fill_rows(const Request& request) const {
  const std::vector<const Example*> examples = fitting(request);
  const auto count = std::ssize(examples);
  if (request.split != Split::kTrain) require_rows(request, count);
  for_each_row(request, [&](Row row, Draw& draw, std::uint64_t number) {
    const std::uint64_t drawn = request.split != Split::kTrain
                                    ? number
                                    : static_cast<std::uint64_t>(draw.below_large(count));
    const Example& example = *examples[drawn];
    std::copy(example.input.begin(), example.input.end(), row.tokens.begin());
    write_answers(row, example.input.size(), separator(), example.answer, pad());
  });
}

// Bytes, or as many tokens as the largest integer of either file asks for.
std::int64_t token_count(const ExampleSplit& split) {
  std::int64_t count = split.text ? 256 : 1;
  for (const Examples* examples : {&split.train, &split.validation, &split.test}) {
    for (const Example& example : *examples) {
      for (const auto* tokens : {&example.input, &example.answer}) {
        for (const std::int32_t token : *tokens) count = std::max<std::int64_t>(count, token + 1);
      }
    }
  }
  return count;
}

}  // namespace

std::unique_ptr<Task> make(const Custom& config) {
  ExampleSplit split = read_split(config);
  const auto [shortest, longest] = std::minmax_element(
      split.train.begin(), split.train.end(),
      [](const Example& a, const Example& b) { return a.positions() < b.positions(); });
  TaskInfo info{.name = std::string(Custom::kTraits.name),
                .vocabulary = token_count(split) + 2,  // <sep> and <pad>
                .row_metric = true,
                .length = longest->positions(),
                .min_length = shortest->positions()};
  std::vector<Axis> axes = {{"train", "examples that fit the training length", true},
                            {"longer", "examples that do not fit the training length"}};
  return std::make_unique<CustomTask>(std::move(split), std::move(info), std::move(axes));
}

}  // namespace posenc::tasks
