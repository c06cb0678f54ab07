// Byte-pair merging: the pair with the lowest rank first, the leftmost of equal ones, until none is left.
//
// Sennrich et al. 2016, arXiv 1508.07909. A word of n bytes takes O(n log n).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace posenc::tokens {

struct Merge {
  std::int32_t left = 0;
  std::int32_t right = 0;
  std::int32_t merged = 0;
};

// Ranks and results of pairs: an open hash table, since it is asked twice for every merge.
class MergeTable {
 public:
  // The rank of a merge is its place; of a pair that comes twice the last place counts.
  explicit MergeTable(std::span<const Merge> merges);

  struct Found {
    std::int32_t rank = -1;  // none
    std::int32_t merged = 0;
  };
  [[nodiscard]] Found find(std::int32_t left, std::int32_t right) const;

 private:
  struct Slot {
    std::uint64_t pair = 0;
    Found found;
  };
  [[nodiscard]] std::size_t slot(std::uint64_t pair) const;

  std::vector<Slot> slots_;
  int shift_ = 0;
};

// Merges words one after the other in memory that is kept between them. One per thread.
class WordMerger {
 public:
  explicit WordMerger(const MergeTable& table) : table_(&table) {}
  // Replaces the tokens of a word's bytes by those they merge to.
  void merge(std::vector<std::int32_t>& word);

 private:
  static constexpr std::size_t kShort =
      24;  // up to here looking at all pairs is faster than a heap
  void merge_short(std::vector<std::int32_t>& word);
  void merge_long(std::vector<std::int32_t>& word);

  struct Candidate {
    std::int32_t rank = 0;
    std::int32_t at = 0;  // of the left token
    std::int32_t left = 0;
    std::int32_t right = 0;
    std::int32_t merged = 0;
  };
  static bool later(const Candidate& a, const Candidate& b);  // the first one is on top of the heap
  void push(std::span<const std::int32_t> word, std::int32_t at);
  [[nodiscard]] bool is_current(std::span<const std::int32_t> word, const Candidate& c) const;

  const MergeTable* table_;
  std::vector<Candidate> heap_;
  std::vector<std::int32_t> next_, previous_;      // places of the tokens that are left; -1: none
  std::array<MergeTable::Found, kShort> pairs_{};  // of a short word, by the left token
};

}  // namespace posenc::tokens
