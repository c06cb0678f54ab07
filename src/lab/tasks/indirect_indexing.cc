#include "tasks/indirect_indexing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tasks/generator.h"
#include "tasks/words.h"

namespace posenc::tasks {
namespace {

enum Token : std::int32_t { kPad, kComma, kFirstLetter };
constexpr std::int64_t kQuestion = 5;  // , k , -2 ,
constexpr std::size_t kLonger = 1;     // the second axis

class IndirectIndexingTask final : public Generator {
 public:
  IndirectIndexingTask(const IndirectIndexing& config, TaskInfo info, std::vector<Axis> axes)
      : Generator(std::move(info), std::move(axes)), config_(config) {}

  [[nodiscard]] std::string token_text(std::int32_t token) const override {
    if (token == kPad) return "<pad>";
    if (token == kComma) return ",";
    const std::int32_t letter = token - kFirstLetter;
    if (letter >= 0 && letter < config_.letters) {
      return letter < 26 ? letter_name(letter, 26) : class_name(letter - 26, 26);
    }
    if (token < 0 || token >= info().vocabulary) {
      return number_name(token, static_cast<std::int32_t>(info().vocabulary), info());  // an error
    }
    return fmt::format("{:+}", shift_of(token));
  }
  // , k , -2 ,
  [[nodiscard]] std::optional<Region> instruction(
      std::span<const std::int32_t> row) const override {
    const std::int64_t begin = std::find(row.begin(), row.end(), kComma) - row.begin();
    if (begin + kQuestion > std::ssize(row)) return std::nullopt;
    return Region{begin, begin + kQuestion};
  }

 private:
  // Tokens of the distances -max_shift .. -1, 1 .. max_shift, in this order.
  [[nodiscard]] std::int64_t first_shift() const { return kFirstLetter + config_.letters; }
  [[nodiscard]] std::int64_t shift_of(std::int32_t token) const {
    const std::int64_t index = token - first_shift();
    return index - config_.max_shift + (index < config_.max_shift ? 0 : 1);
  }
  [[nodiscard]] std::int32_t shift_token(std::int64_t shift) const {
    const std::int64_t index = shift + config_.max_shift - (shift < 0 ? 0 : 1);
    return static_cast<std::int32_t>(first_shift() + index);
  }
  std::size_t draw_string(std::span<std::int32_t> string, std::int32_t source, Draw& draw) const;
  std::int64_t draw_shift(std::int64_t place, std::int64_t size, Draw& draw) const;
  void fill_rows(const Request& request) const override;

  IndirectIndexing config_;
};

// Uniform among the distances from `place` that stay in a string of this size, without 0.
std::int64_t IndirectIndexingTask::draw_shift(std::int64_t place, std::int64_t size,
                                              Draw& draw) const {
  const std::int64_t left = std::min(place, config_.max_shift);
  const std::int64_t right = std::min(size - 1 - place, config_.max_shift);
  const std::int64_t shift = draw.below(left + right) - left;
  return shift < 0 ? shift : shift + 1;
}

// Random letters, among them the source once; returns its place.
std::size_t IndirectIndexingTask::draw_string(std::span<std::int32_t> string, std::int32_t source,
                                              Draw& draw) const {
  for (std::int32_t& token : string) {
    const std::int32_t other = draw.below(config_.letters - 1);
    token = kFirstLetter + other + (other < source ? 0 : 1);
  }
  const auto place = static_cast<std::size_t>(draw.below(std::ssize(string)));
  string[place] = kFirstLetter + source;
  return place;
}

void IndirectIndexingTask::fill_rows(const Request& request) const {
  require_length(request.length, info().min_length, "for the shortest string and the question");
  const std::int64_t room = request.length - kQuestion;
  const bool longer = request.axis == kLonger && request.length > request.train_length;
  const std::int64_t longest = longer ? room : std::min(room, config_.max_letters);
  const std::int64_t shortest = longer ? room : config_.min_letters;
  for_each_row(request, [&](Row row, Draw& draw, std::uint64_t /*number*/) {
    const std::int64_t size = shortest + draw.below(longest - shortest + 1);
    const auto string = row.tokens.first(size);
    const std::int32_t source = draw.below(config_.letters);
    const std::size_t place = draw_string(string, source, draw);
    const std::int64_t shift = draw_shift(static_cast<std::int64_t>(place), size, draw);
    const std::array<std::int32_t, kQuestion> question = {kComma, kFirstLetter + source, kComma,
                                                          shift_token(shift), kComma};
    const auto rest = row.tokens.subspan(string.size());
    std::fill(std::copy(question.begin(), question.end(), rest.begin()), rest.end(), kPad);
    row.targets[string.size() + kQuestion - 1] = string[place + static_cast<std::size_t>(shift)];
  });
}

}  // namespace

std::unique_ptr<Task> make(const IndirectIndexing& config) {
  if (config.min_letters > config.max_letters) {
    throw conflict(IndirectIndexing::kTraits.name, "max_letters",
                   fmt::format("must be >= min_letters {}", config.min_letters),
                   std::to_string(config.max_letters));
  }
  TaskInfo info{.name = std::string(IndirectIndexing::kTraits.name),
                .vocabulary = kFirstLetter + config.letters + 2 * config.max_shift,
                .length = config.max_letters + kQuestion,
                .min_length = config.min_letters + kQuestion};
  std::vector<Axis> axes = {{"train", "as in training", true},
                            {"longer", "strings that fill the row, the same distances"}};
  return std::make_unique<IndirectIndexingTask>(config, std::move(info), std::move(axes));
}

}  // namespace posenc::tasks
