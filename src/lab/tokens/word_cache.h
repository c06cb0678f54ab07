// Words that were encoded before: text repeats them, and merging costs more than a lookup.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace posenc::tokens {

// One place for each hash: a new word replaces the one that has its place. Long words are not kept.
class WordCache {
 public:
  static constexpr int kBits = 15;  // 2 MB

  explicit WordCache(int bits = kBits) : entries_(std::size_t{1} << bits), shift_(64 - bits) {}

  // The tokens of the word, or none.
  [[nodiscard]] std::span<const std::int32_t> find(std::string_view word) const;
  void keep(std::string_view word, std::span<const std::int32_t> tokens);

 private:
  static constexpr std::size_t kLongest = 22;  // with the tokens, an entry is a cache line
  static constexpr std::size_t kMostTokens = 10;
  struct Entry {
    std::uint8_t size = 0;  // of the word; 0: no entry
    std::uint8_t count = 0;
    std::array<char, kLongest> word{};
    std::array<std::int32_t, kMostTokens> tokens{};
  };
  [[nodiscard]] std::size_t place(std::string_view word) const;

  std::vector<Entry> entries_;
  int shift_;
};

}  // namespace posenc::tokens
