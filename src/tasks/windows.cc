#include <algorithm>

#include "tasks/corpus.h"

namespace posenc::tasks {
namespace {

// Sums of count(document) before each document, and the total.
template <class Count>
std::vector<std::int64_t> running_sums(std::span<const Document> documents, Count count) {
  std::vector<std::int64_t> before = {0};
  for (const Document& document : documents) {
    const auto size = static_cast<std::int64_t>(document.bytes.size());
    before.push_back(before.back() + std::max<std::int64_t>(0, count(size)));
  }
  return before;
}

// The document that number n of the sums falls into.
std::size_t document_of(const std::vector<std::int64_t>& before, std::int64_t n) {
  return static_cast<std::size_t>(std::upper_bound(before.begin(), before.end(), n) -
                                  before.begin() - 1);
}

}  // namespace

WindowIndex::WindowIndex(std::span<const Document> documents, std::int64_t window)
    : documents_(documents),
      window_(window),
      before_(running_sums(documents, [&](std::int64_t size) { return size - window + 1; })) {}

Bytes WindowIndex::at(std::int64_t start) const {
  const std::size_t document = document_of(before_, start);
  return documents_[document].bytes.subspan(static_cast<std::size_t>(start - before_[document]),
                                            static_cast<std::size_t>(window_));
}

// A document of n bytes has n - 1 answers. The first window has `length` of them, of which the last
// `stride` count; every further one brings `stride` more, the last one what is left.
WindowList::WindowList(std::span<const Document> documents, std::int64_t length,
                       std::int64_t stride)
    : documents_(documents),
      length_(length),
      stride_(stride),
      before_(running_sums(documents, [&](std::int64_t size) {
        const std::int64_t counted = size - 1 - (length - stride);
        return (counted + stride - 1) / stride;
      })) {}

Window WindowList::at(std::int64_t row) const {
  const std::size_t document = document_of(before_, row);
  const Bytes bytes = documents_[document].bytes;
  const auto answers = static_cast<std::int64_t>(bytes.size()) - 1;
  const std::int64_t start = (row - before_[document]) * stride_;
  const std::int64_t here = std::min(length_, answers - start);
  return {bytes.subspan(static_cast<std::size_t>(start), static_cast<std::size_t>(here) + 1),
          length_ - stride_};
}

}  // namespace posenc::tasks
