#include "tasks/passkey.h"

#include <fmt/format.h>

#include "tasks/generator.h"
#include "tasks/words.h"

namespace posenc::tasks {
namespace {

enum Token : std::int32_t { kKey, kEnd, kQuery, kZero, kFirstWord = kZero + 10 };

class PasskeyTask final : public Generator {
 public:
  PasskeyTask(const Passkey& config, TaskInfo info, std::vector<Axis> axes)
      : Generator(std::move(info), std::move(axes)), config_(config) {}

  [[nodiscard]] std::string token_text(std::int32_t token) const override {
    if (token == kKey) return "<key>";
    if (token == kEnd) return "<end>";
    if (token == kQuery) return "<query>";
    if (token >= kFirstWord && token < info().vocabulary)
      return fmt::format("f{}", token - kFirstWord);
    return number_name(token, kZero, info());
  }
  // <query>; what follows it is the answer so far.
  [[nodiscard]] std::optional<Region> instruction(
      std::span<const std::int32_t> row) const override {
    const std::int64_t question = static_cast<std::int64_t>(row.size()) - config_.digits;
    return Region{question, question + 1};
  }

 private:
  void fill_rows(const Request& request) const override;

  Passkey config_;
};

void PasskeyTask::fill_rows(const Request& request) const {
  require_length(request.length, info().min_length, "for the key and the question");
  const auto digits = static_cast<std::size_t>(config_.digits);
  const auto idle = static_cast<std::size_t>(request.length - info().min_length);
  const auto words = static_cast<std::int32_t>(config_.words);
  const std::size_t question = static_cast<std::size_t>(request.length) - digits;
  for_each_row(request, [&](Row row, Draw& draw, std::uint64_t /*number*/) {
    const auto place = static_cast<std::size_t>(draw.below(static_cast<std::int64_t>(idle) + 1));
    std::size_t t = 0;
    std::int32_t word = 0;
    const auto idle_until = [&](std::size_t end) {
      for (; t < end; ++t) {
        if (config_.filler == Passkey::Filler::kRandom) word = draw.below(words);
        row.tokens[t] = kFirstWord + word;
        if (++word == words) word = 0;
      }
    };
    idle_until(place);
    row.tokens[t++] = kKey;
    for (std::size_t k = 0; k < digits; ++k) {
      const std::int32_t digit = kZero + draw.below(10);
      row.tokens[t++] = digit;
      row.targets[question + k] = digit;
    }
    row.tokens[t++] = kEnd;
    idle_until(question);
    row.tokens[t++] = kQuery;
    for (std::size_t k = 1; k < digits; ++k) row.tokens[t++] = row.targets[question + k - 1];
  });
}

}  // namespace

std::unique_ptr<Task> make(const Passkey& config) {
  TaskInfo info{.name = std::string(Passkey::kTraits.name),
                .vocabulary = kFirstWord + config.words,
                .row_metric = true,
                .length = 512,
                .min_length = 2 * config.digits + 2};
  std::vector<Axis> axes = {{"train", "as in training", true}, {"longer", "more idle text"}};
  return std::make_unique<PasskeyTask>(config, std::move(info), std::move(axes));
}

}  // namespace posenc::tasks
