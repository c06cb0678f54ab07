#include "tasks/windows.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace posenc::tasks {
namespace {

constexpr double kGoldenSection = 0.6180339887498949;

// Sums of count(document) before each document, and the total.
template <class Count>
std::vector<std::int64_t> running_sums(std::span<const Document> documents, Count count) {
  std::vector<std::int64_t> before = {0};
  for (const Document& document : documents) {
    const auto size = std::ssize(document.bytes);
    before.push_back(before.back() + std::max<std::int64_t>(0, count(size)));
  }
  return before;
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
      before_(running_sums(documents, [&](std::int64_t size) { return size - window + 1; })) {}

Bytes WindowIndex::at(std::int64_t start) const {
  const std::size_t document = document_of(before_, start);
  return documents_[document].bytes.subspan(start - before_[document],
                                            static_cast<std::size_t>(window_));
}

// The first block ends with byte `context`: a row of that many tokens predicts it, and starts at byte 0.
BlockList::BlockList(std::span<const Document> documents, std::int64_t scored, std::int64_t context)
    : documents_(documents),
      scored_(scored),
      context_(context),
      before_(running_sums(
          documents, [&](std::int64_t size) { return (size - 1 - context + scored) / scored; })),
      step_(spread_step(before_.back())) {}

std::int64_t BlockList::block(std::int64_t row) const {
  __extension__ using Wide = unsigned __int128;  // a product of two numbers of blocks
  return static_cast<std::int64_t>(static_cast<Wide>(row) * static_cast<Wide>(step_) %
                                   static_cast<Wide>(size()));
}

std::size_t BlockList::document(std::int64_t row) const { return document_of(before_, block(row)); }

Bytes BlockList::window(std::int64_t row, std::int64_t bytes) const {
  const std::int64_t number = block(row);
  const std::size_t document = document_of(before_, number);
  const std::int64_t end = context_ + 1 + (number - before_[document]) * scored_;
  return documents_[document].bytes.subspan(end - bytes, static_cast<std::size_t>(bytes));
}

}  // namespace posenc::tasks
