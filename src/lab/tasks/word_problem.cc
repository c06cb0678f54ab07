#include "tasks/word_problem.h"

#include <algorithm>

#include "tasks/generator.h"
#include "tasks/words.h"

namespace posenc::tasks {
namespace {

enum Token : std::int32_t { kBos, kQuery, kFirstElement };

bool is_even(const std::string& permutation) {
  int inversions = 0;
  for (std::size_t i = 0; i < permutation.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) inversions += permutation[j] > permutation[i] ? 1 : 0;
  }
  return inversions % 2 == 0;
}

// The elements as words, "12345" first, and the number of every product.
class PermutationGroup {
 public:
  explicit PermutationGroup(WordProblem::Group group) {
    std::string word = group == WordProblem::Group::kS3 ? "123" : "12345";
    do {
      if (group != WordProblem::Group::kA5 || is_even(word)) words_.push_back(word);
    } while (std::next_permutation(word.begin(), word.end()));
    for (const std::string& first : words_) {
      for (const std::string& second : words_) products_.push_back(number(first, second));
    }
  }
  [[nodiscard]] std::int32_t size() const { return static_cast<std::int32_t>(words_.size()); }
  [[nodiscard]] const std::string& word(std::int32_t element) const { return words_[element]; }
  [[nodiscard]] std::int32_t product(std::int32_t first, std::int32_t second) const {
    const std::size_t row = static_cast<std::size_t>(first) * words_.size();
    return products_[row + static_cast<std::size_t>(second)];
  }

 private:
  [[nodiscard]] std::int32_t number(const std::string& first, const std::string& second) const {
    std::string image = first;
    for (char& c : image) c = second[c - '1'];
    const auto found = std::lower_bound(words_.begin(), words_.end(), image);
    return static_cast<std::int32_t>(found - words_.begin());
  }

  std::vector<std::string> words_;  // sorted
  std::vector<std::int32_t> products_;
};

class WordProblemTask final : public Generator {
 public:
  WordProblemTask(const WordProblem& config, PermutationGroup group, TaskInfo info,
                  std::vector<Axis> axes)
      : Generator(std::move(info), std::move(axes)), config_(config), group_(std::move(group)) {}

  [[nodiscard]] std::string token_text(std::int32_t token) const override {
    if (token == kBos) return "<bos>";
    if (token == kQuery) return "<query>";
    if (token >= kFirstElement && token < info().vocabulary) {
      return group_.word(token - kFirstElement);
    }
    return number_name(token, static_cast<std::int32_t>(info().vocabulary), info());  // an error
  }

 private:
  void fill_rows(const Request& request) const override {
    require_length(request.length, info().min_length, "positions");
    const bool running = config_.answer == Answer::kRunning;
    const auto end = static_cast<std::size_t>(request.length) - (running ? 0 : 1);
    for_each_row(request, [&](Row row, Draw& draw, std::uint64_t /*number*/) {
      std::int32_t product = 0;  // the identity
      row.tokens[0] = kBos;
      for (std::size_t t = 1; t < end; ++t) {
        const std::int32_t element = draw.below(group_.size());
        product = group_.product(product, element);
        row.tokens[t] = kFirstElement + element;
        if (running) row.targets[t] = kFirstElement + product;
      }
      if (running) return;
      row.tokens[end] = kQuery;
      row.targets[end] = kFirstElement + product;
    });
  }

  WordProblem config_;
  PermutationGroup group_;
};

}  // namespace

std::unique_ptr<Task> make(const WordProblem& config) {
  PermutationGroup group(config.group);
  TaskInfo info{.name = std::string(WordProblem::kTraits.name),
                .vocabulary = kFirstElement + group.size(),
                .length = 64,
                .min_length = config.answer == Answer::kRunning ? 2 : 3};
  std::vector<Axis> axes = {{"train", "as in training", true}, {"longer", "a longer row"}};
  return std::make_unique<WordProblemTask>(config, std::move(group), std::move(info),
                                           std::move(axes));
}

}  // namespace posenc::tasks
