#include "tokens/merge.h"

#include <algorithm>
#include <bit>
#include <tuple>

namespace posenc::tokens {
namespace {

constexpr std::uint64_t kEmpty = ~std::uint64_t{0};  // no token has the number -1
constexpr std::int32_t kGone = -1;                   // a token that went into its left neighbour

std::uint64_t key_of(std::int32_t left, std::int32_t right) {
  return (std::uint64_t{static_cast<std::uint32_t>(left)} << 32) |
         static_cast<std::uint32_t>(right);
}

}  // namespace

MergeTable::MergeTable(std::span<const Merge> merges) {
  const std::size_t size = std::bit_ceil(2 * merges.size() + 2);
  shift_ = 64 - std::countr_zero(size);
  slots_.assign(size, Slot{kEmpty, {}});
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const Merge& merge = merges[rank];
    const std::uint64_t pair = key_of(merge.left, merge.right);
    slots_[slot(pair)] = {pair, {static_cast<std::int32_t>(rank), merge.merged}};
  }
}

std::size_t MergeTable::slot(std::uint64_t pair) const {
  std::size_t place = (pair * 0x9E3779B97F4A7C15u) >> shift_;
  while (slots_[place].pair != kEmpty && slots_[place].pair != pair) {
    place = (place + 1) & (slots_.size() - 1);
  }
  return place;
}

MergeTable::Found MergeTable::find(std::int32_t left, std::int32_t right) const {
  return slots_[slot(key_of(left, right))].found;
}

bool WordMerger::later(const Candidate& a, const Candidate& b) {
  return std::tie(a.rank, a.at) > std::tie(b.rank, b.at);
}

void WordMerger::push(std::span<const std::int32_t> word, std::int32_t at) {
  const auto place = static_cast<std::size_t>(at);
  if (at < 0 || next_[place] < 0) return;
  const std::int32_t left = word[place];
  const std::int32_t right = word[static_cast<std::size_t>(next_[place])];
  const MergeTable::Found found = table_->find(left, right);
  if (found.rank < 0) return;
  heap_.push_back({found.rank, at, left, right, found.merged});
  std::push_heap(heap_.begin(), heap_.end(), later);
}

bool WordMerger::is_current(std::span<const std::int32_t> word, const Candidate& c) const {
  const auto at = static_cast<std::size_t>(c.at);
  return word[at] == c.left && next_[at] >= 0 &&
         word[static_cast<std::size_t>(next_[at])] == c.right;
}

void WordMerger::merge(std::vector<std::int32_t>& word) {
  if (word.size() <= kShort) return merge_short(word);
  merge_long(word);
}

void WordMerger::merge_short(std::vector<std::int32_t>& word) {
  std::size_t size = word.size();
  const auto look_up = [&](std::size_t i) { pairs_[i] = table_->find(word[i], word[i + 1]); };
  for (std::size_t i = 0; i + 1 < size; ++i) look_up(i);
  while (size > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < size; ++i) {
      // As unsigned numbers, so that the rank of no merge is the largest.
      const auto rank = [&](std::size_t at) { return static_cast<std::uint32_t>(pairs_[at].rank); };
      if (rank(i) < rank(best)) best = i;
    }
    if (pairs_[best].rank < 0) break;
    word[best] = pairs_[best].merged;
    --size;
    for (std::size_t i = best + 1; i < size; ++i) {
      word[i] = word[i + 1];
      pairs_[i] = pairs_[i + 1];
    }
    if (best > 0) look_up(best - 1);
    if (best + 1 < size) look_up(best);
  }
  word.resize(size);
}

void WordMerger::merge_long(std::vector<std::int32_t>& word) {
  const auto size = static_cast<std::int32_t>(word.size());
  next_.resize(word.size());
  previous_.resize(word.size());
  for (std::int32_t i = 0; i < size; ++i) {
    next_[static_cast<std::size_t>(i)] = i + 1 < size ? i + 1 : -1;
    previous_[static_cast<std::size_t>(i)] = i - 1;
  }
  heap_.clear();
  for (std::int32_t i = 0; i < size; ++i) push(word, i);
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const Candidate best = heap_.back();
    heap_.pop_back();
    if (!is_current(word, best)) continue;
    const auto at = static_cast<std::size_t>(best.at);
    const auto gone = static_cast<std::size_t>(next_[at]);
    word[at] = best.merged;
    word[gone] = kGone;
    next_[at] = next_[gone];
    if (next_[at] >= 0) previous_[static_cast<std::size_t>(next_[at])] = best.at;
    push(word, previous_[at]);
    push(word, best.at);
  }
  std::erase(word, kGone);
}

}  // namespace posenc::tokens
