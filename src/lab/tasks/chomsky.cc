#include "tasks/chomsky.h"

#include <algorithm>
#include <array>

#include "tasks/generator.h"
#include "tasks/words.h"

namespace posenc::tasks {
namespace {

using Kind = Chomsky::Kind;
using String = std::vector<std::int32_t>;

enum Token : std::int32_t { kPad, kSep, kMissing, kPop, kPushZero, kPushOne, kEnd, kZero };
constexpr std::int32_t kSymbols = 5;
constexpr std::size_t kLonger = 1;                  // the second axis
constexpr std::int64_t kLargestPublishedSize = 40;  // in training

// How many positions a row needs per symbol of its input, and beyond that.
struct RowShape {
  std::int64_t per_symbol = 1;
  std::int64_t more = 0;
  std::int64_t step = 1;  // between two sizes

  [[nodiscard]] std::int64_t positions(std::int64_t size) const { return per_symbol * size + more; }
  [[nodiscard]] std::int64_t largest(std::int64_t length) const {
    return (length - more) / per_symbol / step * step;
  }
};

// An answer of m symbols takes m positions, from the separator on.
RowShape row_shape(Kind kind) {
  switch (kind) {
    case Kind::kEvenPairs:
      return {.per_symbol = 1, .more = 1};
    case Kind::kMissingDuplicate:
      return {.per_symbol = 1, .more = 1, .step = 2};
    case Kind::kDuplicate:
      return {.per_symbol = 3};
    case Kind::kStack:
      return {.per_symbol = 2, .more = 1};
    default:
      return {.per_symbol = 2};
  }
}

void draw_symbols(String& string, std::int32_t symbols, Draw& draw) {
  for (std::int32_t& symbol : string) symbol = kZero + draw.below(symbols);
}

// Bits, then operations; at least one bit.
void draw_stack(String& input, Draw& draw) {
  const auto size = std::ssize(input);
  const std::int64_t bits = size == 1 ? 1 : 1 + draw.below(size - 1);
  for (std::int64_t t = 0; t < size; ++t) {
    input[t] = t < bits ? kZero + draw.below(2) : kPop + draw.below(3);
  }
}

String stack_answer(const String& input) {
  String stack;
  for (const std::int32_t token : input) {
    if (token >= kZero) {
      stack.push_back(token);
    } else if (token != kPop) {
      stack.push_back(kZero + token - kPushZero);
    } else if (!stack.empty()) {
      stack.pop_back();
    }
  }
  std::reverse(stack.begin(), stack.end());
  stack.push_back(kEnd);
  return stack;
}

// Writes the second copy and hides one symbol, which is the answer.
String hide_symbol(String& input, Draw& draw) {
  const auto half = static_cast<std::ptrdiff_t>(input.size() / 2);
  std::copy(input.begin(), input.begin() + half, input.begin() + half);
  const auto place = static_cast<std::size_t>(draw.below(2 * half));
  return {std::exchange(input[place], kMissing)};
}

String odds_first(const String& input) {
  String answer;
  for (const std::size_t first : {0U, 1U}) {
    for (std::size_t t = first; t < input.size(); t += 2) answer.push_back(input[t]);
  }
  return answer;
}

String duplicated(const String& input) {
  String answer = input;
  answer.insert(answer.end(), input.begin(), input.end());
  return answer;
}

String sorted(String input) {
  std::sort(input.begin(), input.end());
  return input;
}

// Draws the input, whose size is given, and returns the answer.
String draw_sample(Kind kind, String& input, Draw& draw) {
  if (kind == Kind::kStack) {
    draw_stack(input, draw);
    return stack_answer(input);
  }
  draw_symbols(input, kind == Kind::kBucketSort ? kSymbols : 2, draw);
  switch (kind) {
    // Changes come in turns, so their number is even when the string ends as it begins.
    case Kind::kEvenPairs:
      return {input.front() == input.back() ? kZero : kZero + 1};
    case Kind::kReverse:
      return {input.rbegin(), input.rend()};
    case Kind::kDuplicate:
      return duplicated(input);
    case Kind::kMissingDuplicate:
      return hide_symbol(input, draw);
    case Kind::kOddsFirst:
      return odds_first(input);
    default:
      return sorted(input);
  }
}

class ChomskyTask final : public Generator {
 public:
  ChomskyTask(const Chomsky& config, TaskInfo info, std::vector<Axis> axes)
      : Generator(std::move(info), std::move(axes)), kind_(config.kind) {}

  [[nodiscard]] std::string token_text(std::int32_t token) const override {
    static constexpr std::array<std::string_view, kZero> kWords = {"<pad>", "|",     "_",    "pop",
                                                                   "push0", "push1", "<end>"};
    if (token >= 0 && token < kZero) return std::string(kWords[token]);
    return number_name(token, kZero, info());
  }

 private:
  void fill_rows(const Request& request) const override {
    require_length(request.length, info().min_length, "for the shortest string and its answer");
    const RowShape shape = row_shape(kind_);
    const std::int64_t most = shape.largest(request.length) / shape.step;
    std::int64_t trained = 0;
    if (request.axis == kLonger && request.length > request.train_length) {
      trained = std::min(most - 1, shape.largest(request.train_length) / shape.step);
    }
    String input;
    for_each_row(request, [&](Row row, Draw& draw, std::uint64_t /*number*/) {
      const std::int64_t steps = trained + 1 + draw.below(most - trained);
      input.resize(steps * shape.step);
      const String answer = draw_sample(kind_, input, draw);
      std::copy(input.begin(), input.end(), row.tokens.begin());
      write_answers(row, input.size(), kSep, answer, kPad);
    });
  }

  Kind kind_;
};

}  // namespace

std::unique_ptr<Task> make(const Chomsky& config) {
  const RowShape shape = row_shape(config.kind);
  TaskInfo info{.name = std::string(Chomsky::kTraits.name),
                .vocabulary = kZero + kSymbols,
                .length = shape.positions(kLargestPublishedSize),
                .min_length = shape.positions(shape.step)};
  std::vector<Axis> axes = {{"train", "as in training", true},
                            {"longer", "strings that do not fit the training length"}};
  return std::make_unique<ChomskyTask>(config, std::move(info), std::move(axes));
}

}  // namespace posenc::tasks
