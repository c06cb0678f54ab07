#include "tasks/windows.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace posenc::tasks {
namespace {

constexpr double kGoldenSection = 0.6180339887498949;

// Sums of count(size) before each document, and the total.
template <class Count>
std::vector<std::int64_t> running_sums(std::span<const std::int64_t> sizes, Count count) {
  std::vector<std::int64_t> before = {0};
  before.reserve(sizes.size() + 1);
  for (const std::int64_t size : sizes) {
    before.push_back(before.back() + std::max<std::int64_t>(0, count(size)));
  }
  return before;
}

std::vector<std::int64_t> sizes_of(std::span<const Document> documents) {
  std::vector<std::int64_t> sizes;
  for (const Document& document : documents) sizes.push_back(std::ssize(document.bytes));
  return sizes;
}

// The document that number n of the sums falls into.
std::size_t document_of(const std::vector<std::int64_t>& before, std::int64_t n) {
  return static_cast<std::size_t>(std::upper_bound(before.begin(), before.end(), n) -
                                  before.begin() - 1);
}

// Without a common divisor, so that no block comes twice.
std::int64_t spread_step(std::int64_t blocks) {
  auto step = static_cast<std::int64_t>(std::llround(kGoldenSection * static_cast<double>(blocks)));
  while (std::gcd(step, blocks) > 1) ++step;
  return step;
}

}  // namespace

WindowIndex::WindowIndex(std::span<const Document> documents, std::int64_t window)
    : documents_(documents),
      window_(window),
      before_(running_sums(sizes_of(documents),
                           [&](std::int64_t size) { return size - window + 1; })) {}

Bytes WindowIndex::at(std::int64_t start) const {
  const std::size_t document = document_of(before_, start);
  return documents_[document].bytes.subspan(start - before_[document],
                                            static_cast<std::size_t>(window_));
}

// The first block ends with byte `context`: a row of that many tokens predicts it, and starts at byte 0.
BlockPlaces::BlockPlaces(std::span<const std::int64_t> sizes, std::int64_t scored,
                         std::int64_t context)
    : scored_(scored),
      context_(context),
      before_(running_sums(
          sizes, [&](std::int64_t size) { return (size - 1 - context + scored) / scored; })),
      step_(spread_step(before_.back())) {}

std::int64_t BlockPlaces::block(std::int64_t row) const {
  __extension__ using Wide = unsigned __int128;  // a product of two numbers of blocks
  return static_cast<std::int64_t>(static_cast<Wide>(row) * static_cast<Wide>(step_) %
                                   static_cast<Wide>(size()));
}

std::size_t BlockPlaces::document(std::int64_t row) const {
  return document_of(before_, block(row));
}

std::int64_t BlockPlaces::end(std::int64_t row) const {
  const std::int64_t number = block(row);
  return context_ + 1 + (number - before_[document_of(before_, number)]) * scored_;
}

BlockList::BlockList(std::span<const Document> documents, std::int64_t scored, std::int64_t context)
    : documents_(documents), places_(sizes_of(documents), scored, context) {}

Bytes BlockList::window(std::int64_t row, std::int64_t bytes) const {
  return documents_[places_.document(row)].bytes.subspan(
      static_cast<std::size_t>(places_.end(row) - bytes), static_cast<std::size_t>(bytes));
}

}  // namespace posenc::tasks
