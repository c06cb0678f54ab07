#include "tasks/segments.h"

#include <fmt/format.h>

#include "tasks/generator.h"
#include "tasks/words.h"

namespace posenc::tasks {
namespace {

enum Token : std::int32_t { kBos, kMark, kQuery, kFirstLetter };
enum AxisIndex : std::size_t { kTrain, kLonger, kSparse };

// Either config in words that fit both.
struct Shape {
  std::int64_t letters = 0;
  std::int64_t shortest = 0;
  std::int64_t longest = 0;
  std::int64_t max_index = 0;
  std::int64_t sparse_factor = 0;
  bool from_end = false;
};

class SegmentsTask final : public Generator {
 public:
  SegmentsTask(const Shape& shape, TaskInfo info, std::vector<Axis> axes)
      : Generator(std::move(info), std::move(axes)), shape_(shape) {}

  [[nodiscard]] std::string token_text(std::int32_t token) const override {
    if (token == kBos) return "<bos>";
    if (token == kMark) return shape_.from_end ? "." : "_";
    if (token == kQuery) return "<query>";
    if (token >= kFirstLetter && token < first_number()) {
      return letter_name(token - kFirstLetter, shape_.letters);
    }
    return number_name(token, first_number() - 1, info());  // numbers from 1
  }
  // <query> and the number.
  [[nodiscard]] std::optional<Region> instruction(
      std::span<const std::int32_t> row) const override {
    const auto end = std::ssize(row);
    return Region{end - 2, end};
  }

 private:
  [[nodiscard]] std::int32_t first_number() const {
    return static_cast<std::int32_t>(kFirstLetter + shape_.letters);
  }
  void fill_rows(const Request& request) const override;

  Shape shape_;
};

// Letters of the next segment when `room` positions are left for it, its mark and what follows.
std::int64_t segment_letters(std::int64_t room, std::int64_t shortest, std::int64_t longest,
                             Draw& draw) {
  const std::int64_t letters = shortest + draw.below(longest - shortest + 1);
  return room - (letters + 1) > shortest ? letters : room - 1;
}

void SegmentsTask::fill_rows(const Request& request) const {
  const std::int64_t factor = request.axis == kSparse ? shape_.sparse_factor : 1;
  const std::int64_t shortest = shape_.shortest * factor;
  const std::int64_t longest = shape_.longest * factor;
  require_length(request.length, shortest + 4, "for one segment and the question");
  std::vector<std::int32_t> first_letters;
  for_each_row(request, [&](Row row, Draw& draw, std::uint64_t /*number*/) {
    first_letters.clear();
    row.tokens[0] = kBos;
    std::size_t t = 1;
    const std::size_t end = row.tokens.size() - 2;
    while (t < end) {
      const auto room = static_cast<std::int64_t>(end - t);
      const std::int64_t letters = segment_letters(room, shortest, longest, draw);
      for (std::int64_t k = 0; k < letters; ++k) {
        row.tokens[t++] = kFirstLetter + draw.below(shape_.letters);
      }
      first_letters.push_back(row.tokens[t - static_cast<std::size_t>(letters)]);
      row.tokens[t++] = kMark;
    }
    const auto count = std::ssize(first_letters);
    const std::int32_t k = draw.below(std::min(count, shape_.max_index));
    row.tokens[end] = kQuery;
    row.tokens[end + 1] = first_number() + k;
    row.targets[end + 1] = first_letters[shape_.from_end ? count - 1 - k : k];
  });
}

std::unique_ptr<Task> make_segments(const Shape& shape, std::string_view name,
                                    std::string_view segments, const char* longest_key,
                                    std::int64_t length) {
  if (shape.shortest > shape.longest) {
    throw conflict(name, longest_key, fmt::format("must be >= the shortest, {}", shape.shortest),
                   std::to_string(shape.longest));
  }
  TaskInfo info{.name = std::string(name),
                .vocabulary = kFirstLetter + shape.letters + shape.max_index,
                .length = length,
                .min_length = shape.shortest + 4};
  std::vector<Axis> axes = {
      {"train", "as in training", true},
      {"longer", fmt::format("more {}, the same numbers asked for", segments)},
      {"sparse", fmt::format("{} {} times as long", segments, shape.sparse_factor), false, true}};
  return std::make_unique<SegmentsTask>(shape, std::move(info), std::move(axes));
}

}  // namespace

std::unique_ptr<Task> make(const IthWord& config) {
  const Shape shape{config.letters,   config.min_letters,   config.max_letters,
                    config.max_index, config.sparse_factor, false};
  return make_segments(shape, IthWord::kTraits.name, "words", "max_letters", 64);
}

std::unique_ptr<Task> make(const LastSentence& config) {
  const Shape shape{config.words,     config.min_words,     config.max_words,
                    config.max_index, config.sparse_factor, true};
  return make_segments(shape, LastSentence::kTraits.name, "sentences", "max_words", 128);
}

}  // namespace posenc::tasks
