#include "tasks/passkey.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tasks/generator.h"
#include "tasks/words.h"

namespace posenc::tasks {
namespace {

constexpr std::int32_t kNames = 26;
enum Token : std::int32_t { kKey, kEnd, kQuery, kZero, kFirstName = kZero + 10 };
constexpr std::int32_t kFirstWord = kFirstName + kNames;

// <key> c 4 0 7 <end>, after so many words of idle text.
struct HiddenKey {
  std::int64_t idle_before = 0;
  std::int32_t name = 0;
  std::vector<std::int32_t> digits = {};
};

class PasskeyTask final : public Generator {
 public:
  PasskeyTask(const Passkey& config, TaskInfo info, std::vector<Axis> axes)
      : Generator(std::move(info), std::move(axes)), config_(config) {}

  [[nodiscard]] std::string token_text(std::int32_t token) const override {
    if (token == kKey) return "<key>";
    if (token == kEnd) return "<end>";
    if (token == kQuery) return "<query>";
    if (token >= kFirstWord && token < info().vocabulary) {
      return fmt::format("f{}", token - kFirstWord);
    }
    if (token >= kFirstName && token < kFirstWord) return letter_name(token - kFirstName, kNames);
    return number_name(token, kZero, info());
  }
  // <query> and the name; what follows is the answer so far.
  [[nodiscard]] std::optional<Region> instruction(
      std::span<const std::int32_t> row) const override {
    const std::int64_t query = std::ssize(row) - config_.digits - 1;
    return Region{query, query + 2};
  }
  [[nodiscard]] std::optional<double> depth(std::span<const std::int32_t> row) const override;

 private:
  void fill_rows(const Request& request) const override;
  // The asked key first, then distractors.
  void draw_keys(const Request& request, DistinctNumbers& names, Draw& draw,
                 std::vector<HiddenKey>& keys) const;
  void write_text(std::span<const HiddenKey> keys, std::span<std::int32_t> text, Draw& draw) const;

  Passkey config_;
};

std::optional<double> PasskeyTask::depth(std::span<const std::int32_t> row) const {
  const auto query = row.end() - config_.digits - 1;
  const auto is_idle = [](std::int32_t token) { return token >= kFirstWord; };
  const auto idle = std::count_if(row.begin(), query, is_idle);
  const auto key = std::find(row.begin(), query, query[1]);
  if (idle == 0) return 0.0;
  return static_cast<double>(std::count_if(row.begin(), key, is_idle)) / static_cast<double>(idle);
}

void PasskeyTask::draw_keys(const Request& request, DistinctNumbers& names, Draw& draw,
                            std::vector<HiddenKey>& keys) const {
  const std::int64_t idle = request.length - info().min_length;
  names.restart();
  for (HiddenKey& key : keys) {
    key.idle_before = draw.below(idle + 1);
    key.name = kFirstName + names.next(draw);
    for (std::int32_t& digit : key.digits) digit = kZero + draw.below(10);
  }
  // After the draws, so that a fixed depth changes nothing else of the row.
  if (request.depth) {
    keys.front().idle_before = std::llround(*request.depth * static_cast<double>(idle));
  }
}

// Words of idle text: one phrase over and over, or random ones.
class IdleText {
 public:
  explicit IdleText(const Passkey& config) : config_(config) {}
  std::int32_t next(Draw& draw) {
    const auto words = static_cast<std::int32_t>(config_.words);
    if (config_.filler == Passkey::Filler::kRandom) return kFirstWord + draw.below(words);
    return kFirstWord + static_cast<std::int32_t>(written_++ % words);
  }

 private:
  const Passkey& config_;
  std::int64_t written_ = 0;
};

// The keys in the order of their places, and idle text between them.
void PasskeyTask::write_text(std::span<const HiddenKey> keys, std::span<std::int32_t> text,
                             Draw& draw) const {
  IdleText idle(config_);
  std::int64_t idle_written = 0;
  std::size_t t = 0;
  for (const HiddenKey& key : keys) {
    for (; idle_written < key.idle_before; ++idle_written) text[t++] = idle.next(draw);
    text[t++] = kKey;
    text[t++] = key.name;
    for (const std::int32_t digit : key.digits) text[t++] = digit;
    text[t++] = kEnd;
  }
  while (t < text.size()) text[t++] = idle.next(draw);
}

void PasskeyTask::fill_rows(const Request& request) const {
  require_length(request.length, info().min_length, "for the keys and the question");
  const auto query = static_cast<std::size_t>(request.length - config_.digits - 1);
  DistinctNumbers names(kNames);
  HiddenKey blank;
  blank.digits.resize(config_.digits);
  std::vector<HiddenKey> keys;
  for_each_row(request, [&](Row row, Draw& draw, std::uint64_t /*number*/) {
    keys.assign(static_cast<std::size_t>(config_.distractors) + 1, blank);
    draw_keys(request, names, draw, keys);
    row.tokens[query] = kQuery;
    write_answers(row, query + 1, keys.front().name, keys.front().digits, kEnd);
    // Names are random, so the order of keys at the same place is, too.
    std::sort(keys.begin(), keys.end(), [](const HiddenKey& a, const HiddenKey& b) {
      return std::pair(a.idle_before, a.name) < std::pair(b.idle_before, b.name);
    });
    write_text(keys, row.tokens.first(query), draw);
  });
}

}  // namespace

std::unique_ptr<Task> make(const Passkey& config) {
  TaskInfo info{.name = std::string(Passkey::kTraits.name),
                .vocabulary = kFirstWord + config.words,
                .row_metric = true,
                .length = 512,
                .min_length = (config.distractors + 1) * (config.digits + 3) + config.digits + 1,
                .has_depth = true};
  std::vector<Axis> axes = {{"train", "as in training", true}, {"longer", "more idle text"}};
  return std::make_unique<PasskeyTask>(config, std::move(info), std::move(axes));
}

}  // namespace posenc::tasks
