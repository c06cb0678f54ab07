#include "plots/words.h"

#include <fmt/format.h>

#include <cmath>

#include "core/strings.h"
#include "plots/inputs.h"

namespace posenc::plots {
namespace {

constexpr std::size_t kMostWords = 48;

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_mark(char c) { return std::string_view(".,;:!?()\"").find(c) != std::string_view::npos; }

}  // namespace

std::vector<std::string> split_words(const std::string& sentence) {
  std::vector<std::string> words;
  std::string word;
  const auto end_word = [&] {
    if (!word.empty()) words.push_back(word);
    word.clear();
  };
  for (const char c : sentence) {
    if (is_space(c) || is_mark(c)) {
      end_word();
      if (is_mark(c)) words.emplace_back(1, c);
    } else {
      word += c;
    }
  }
  end_word();
  return words;
}

Words read_words(const PlotRequest& request) {
  Words words;
  for (const std::string& sentence : request.text) {
    words.starts.push_back(std::ssize(words.tokens));
    for (std::string& word : split_words(sentence)) words.tokens.push_back(std::move(word));
  }
  if (words.tokens.size() < 2 || words.tokens.size() > kMostWords) {
    refuse(ErrorKind::kWrongLength, "text", fmt::format("must have 2 to {} words", kMostWords),
           std::to_string(words.tokens.size()), "punctuation marks count as words");
  }
  return words;
}

std::vector<double> word_vector(const PlotRequest& request, const std::string& word) {
  std::vector<double> x =
      normal_vector(request.head_dim, static_cast<std::uint64_t>(request.seed), fnv1a(word));
  const double length = std::sqrt(dot(x, x));
  for (double& value : x) value /= length;
  return x;
}

}  // namespace posenc::plots
