#include "tokens/train.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <queue>
#include <tuple>

#include "posenc/core/error.h"
#include "tokens/byte_level.h"
#include "tokens/unicode.h"

namespace posenc::tokens {
namespace {

using Kind = VocabularyToken::Kind;

struct Word {
  std::vector<std::int32_t> tokens;
  std::int64_t count = 0;
};

struct Pair {
  std::int32_t left = 0;
  std::int32_t right = 0;
  auto operator<=>(const Pair&) const = default;  // NOLINT(modernize-use-nullptr)
};
struct PairHash {
  std::size_t operator()(const Pair& pair) const {
    const auto left = std::uint64_t{static_cast<std::uint32_t>(pair.left)};
    return ((left << 32) | static_cast<std::uint32_t>(pair.right)) * 0x9E3779B97F4A7C15u >> 16;
  }
};

struct Candidate {
  std::int64_t count = 0;
  Pair pair;
  // The largest is on top of a priority_queue.
  bool operator<(const Candidate& other) const {
    return count != other.count ? count < other.count : other.pair < pair;
  }
};

// Counts of pairs and the words that have them, kept up to date while words are merged.
class PairCounts {
 public:
  explicit PairCounts(std::vector<Word> words) : words_(std::move(words)) {
    for (std::uint32_t w = 0; w < words_.size(); ++w) {
      const std::vector<std::int32_t>& tokens = words_[w].tokens;
      for (std::size_t i = 0; i + 1 < tokens.size(); ++i) change({tokens[i], tokens[i + 1]}, w, 1);
    }
    push_changed();
  }

  // The most frequent pair, taken off; a count of 0 where there is none.
  Candidate pop() {
    while (!queue_.empty()) {
      Candidate best = queue_.top();
      queue_.pop();
      const std::int64_t now = places_[best.pair].count;
      if (best.count == now) return best;
      if (now > 0) queue_.push({now, best.pair});  // it has become rarer since
    }
    return {};
  }

  void merge(Pair pair, std::int32_t merged) {
    std::vector<std::uint32_t> words = std::move(places_[pair].words);
    places_[pair] = {};
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    for (const std::uint32_t w : words) merge_word(w, pair, merged);
    places_[pair] = {};
    push_changed();
  }

 private:
  struct Places {
    std::int64_t count = 0;
    std::vector<std::uint32_t> words;
  };

  void change(Pair pair, std::uint32_t word, std::int64_t sign) {
    Places& places = places_[pair];
    places.count += sign * words_[word].count;
    if (sign < 0) return;
    if (places.words.empty() || places.words.back() != word) places.words.push_back(word);
    changed_.push_back(pair);
  }

  void merge_word(std::uint32_t w, Pair pair, std::int32_t merged) {
    std::vector<std::int32_t>& tokens = words_[w].tokens;
    std::size_t size = 0;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const bool here =
          i + 1 < tokens.size() && tokens[i] == pair.left && tokens[i + 1] == pair.right;
      if (!here) {
        tokens[size++] = tokens[i];
        continue;
      }
      if (size > 0) {
        change({tokens[size - 1], pair.left}, w, -1);
        change({tokens[size - 1], merged}, w, 1);
      }
      if (i + 2 < tokens.size()) {
        change({pair.right, tokens[i + 2]}, w, -1);
        change({merged, tokens[i + 2]}, w, 1);
      }
      tokens[size++] = merged;
      ++i;
    }
    tokens.resize(size);
  }

  void push_changed() {
    std::sort(changed_.begin(), changed_.end());
    changed_.erase(std::unique(changed_.begin(), changed_.end()), changed_.end());
    for (const Pair& pair : changed_) {
      const std::int64_t count = places_[pair].count;
      if (count > 0) queue_.push({count, pair});
    }
    changed_.clear();
  }

  std::vector<Word> words_;
  std::unordered_map<Pair, Places, PairHash> places_;
  std::vector<Pair> changed_;
  std::priority_queue<Candidate> queue_;
};

std::array<int, 256> bytes_by_character() {
  std::array<int, 256> bytes{};
  std::iota(bytes.begin(), bytes.end(), 0);
  std::sort(bytes.begin(), bytes.end(), [](int a, int b) {
    return character_of(static_cast<unsigned char>(a)) <
           character_of(static_cast<unsigned char>(b));
  });
  return bytes;
}

// The tokenizer while it grows.
class Vocabulary {
 public:
  explicit Vocabulary(const TrainOptions& options) {
    parts_.pattern = options.pattern;
    parts_.nfc = options.nfc;
    for (const std::string& content : options.special) {
      // As it reads back from a file, where all tokens are written in the byte-level alphabet.
      const std::optional<std::string> bytes = from_byte_level(content);
      const std::int32_t id = add({bytes ? Kind::kBytes : Kind::kText, bytes.value_or(content)});
      if (bytes) numbers_[*bytes] = id;  // a pair that makes it is this token
      parts_.added.push_back({.id = id, .content = content, .special = true, .normalized = false});
    }
    for (const int byte : bytes_by_character()) {
      const std::string text(1, static_cast<char>(byte));
      numbers_[text] = add({Kind::kBytes, text});
    }
  }

  [[nodiscard]] std::int64_t size() const { return std::ssize(parts_.vocabulary); }
  [[nodiscard]] std::int32_t byte(char c) const { return numbers_.at(std::string(1, c)); }
  // The token that the pair makes: two pairs may make the same one.
  std::int32_t merge(Pair pair) {
    const std::string text = bytes_of(pair.left) + bytes_of(pair.right);
    const auto [found, is_new] = numbers_.try_emplace(text, 0);
    if (is_new) found->second = add({Kind::kBytes, text});
    const std::int32_t merged = found->second;
    parts_.merges.push_back({pair.left, pair.right, merged});
    return merged;
  }
  TokenizerParts take() { return std::move(parts_); }

 private:
  std::int32_t add(VocabularyToken token) {
    parts_.vocabulary.push_back(std::move(token));
    return static_cast<std::int32_t>(parts_.vocabulary.size() - 1);
  }
  [[nodiscard]] const std::string& bytes_of(std::int32_t id) const {
    return parts_.vocabulary[static_cast<std::size_t>(id)].bytes;
  }

  TokenizerParts parts_;
  std::unordered_map<std::string, std::int32_t> numbers_;
};

}  // namespace

Trainer::Trainer(TrainOptions options) : options_(std::move(options)) {
  const std::int64_t least = 256 + std::ssize(options_.special);
  if (options_.vocabulary >= least) return;
  throw Error(ErrorKind::kOutOfRange,
              {.scope = "tokenizer",
               .key = "vocab",
               .rule = fmt::format("must be >= {}: 256 bytes and {} special tokens", least,
                                   options_.special.size()),
               .value = std::to_string(options_.vocabulary),
               .hint = "raise it; 4096 to 50000 is usual"});
}

void Trainer::add(std::string_view document) {
  const std::string normal = options_.nfc ? to_nfc(document) : std::string();
  const std::string_view text = options_.nfc ? std::string_view(normal) : document;
  std::string word;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = word_end(options_.pattern, text, at);
    word.assign(text, at, end - at);
    ++words_[word];
    at = end;
  }
}

TokenizerParts Trainer::train() const {
  Vocabulary vocabulary(options_);
  std::vector<Word> words;
  words.reserve(words_.size());
  for (const auto& [text, count] : words_) {
    Word word{.tokens = {}, .count = count};
    for (const char c : text) word.tokens.push_back(vocabulary.byte(c));
    words.push_back(std::move(word));
  }
  PairCounts counts(std::move(words));
  while (vocabulary.size() < options_.vocabulary) {
    const Candidate best = counts.pop();
    if (best.count < std::max<std::int64_t>(1, options_.least_count)) break;
    counts.merge(best.pair, vocabulary.merge(best.pair));
  }
  return vocabulary.take();
}

}  // namespace posenc::tokens
