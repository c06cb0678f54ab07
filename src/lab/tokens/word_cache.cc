#include "tokens/word_cache.h"

#include <algorithm>
#include <cstring>

namespace posenc::tokens {

// Eight bytes at a time: most words are one or two multiplications.
std::size_t WordCache::place(std::string_view word) const {
  constexpr std::uint64_t kFactor = 0x9E3779B97F4A7C15u;
  std::uint64_t hash = word.size() * kFactor;
  for (std::size_t at = 0; at < word.size(); at += sizeof(std::uint64_t)) {
    std::uint64_t part = 0;
    std::memcpy(&part, word.data() + at, std::min(word.size() - at, sizeof part));
    hash = (hash ^ (hash >> 29) ^ part) * kFactor;
  }
  return (hash ^ (hash >> 32)) * kFactor >> shift_;
}

std::span<const std::int32_t> WordCache::find(std::string_view word) const {
  if (word.empty() || word.size() > kLongest) return {};
  const Entry& entry = entries_[place(word)];
  if (std::string_view(entry.word.data(), entry.size) != word) return {};
  return std::span(entry.tokens).first(entry.count);
}

void WordCache::keep(std::string_view word, std::span<const std::int32_t> tokens) {
  if (word.empty() || word.size() > kLongest || tokens.size() > kMostTokens) return;
  Entry& entry = entries_[place(word)];
  entry.size = static_cast<std::uint8_t>(word.size());
  entry.count = static_cast<std::uint8_t>(tokens.size());
  std::copy(word.begin(), word.end(), entry.word.begin());
  std::copy(tokens.begin(), tokens.end(), entry.tokens.begin());
}

}  // namespace posenc::tokens
