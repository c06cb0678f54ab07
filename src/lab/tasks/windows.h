// Places of rows in documents: at random to train on, and spread over all documents to evaluate.
#pragma once

#include <cstdint>
#include <vector>

#include "tasks/document.h"

namespace posenc::tasks {

// Documents with room for a window, and every start of a window by number.
class WindowIndex {
 public:
  WindowIndex(std::span<const Document> documents, std::int64_t window);
  [[nodiscard]] std::int64_t starts() const { return before_.back(); }
  [[nodiscard]] Bytes at(std::int64_t start) const;

 private:
  std::span<const Document> documents_;
  std::int64_t window_;
  std::vector<std::int64_t> before_;  // starts in the documents before each one, and the total
};

// Blocks of bytes or tokens that are scored, side by side in each document after its first `context` ones,
// so that any length up to `context` can precede them.
//
// Row n is not the n-th block of the corpus: consecutive rows are a golden section of all blocks apart.
// Every block is one row, and the first rows, however many, are spread evenly over all documents.
class BlockPlaces {
 public:
  BlockPlaces(std::span<const std::int64_t> sizes, std::int64_t scored, std::int64_t context);
  [[nodiscard]] std::int64_t size() const { return before_.back(); }
  [[nodiscard]] std::size_t document(std::int64_t row) const;
  // Where the row's block ends in its document.
  [[nodiscard]] std::int64_t end(std::int64_t row) const;

 private:
  [[nodiscard]] std::int64_t block(std::int64_t row) const;

  std::int64_t scored_;
  std::int64_t context_;
  std::vector<std::int64_t> before_;
  std::int64_t step_;  // between the blocks of consecutive rows
};

// The blocks of documents in memory.
class BlockList {
 public:
  BlockList(std::span<const Document> documents, std::int64_t scored, std::int64_t context);
  [[nodiscard]] std::int64_t size() const { return places_.size(); }
  [[nodiscard]] std::size_t document(std::int64_t row) const { return places_.document(row); }
  // So many bytes, of which the last `scored` are the row's block.
  [[nodiscard]] Bytes window(std::int64_t row, std::int64_t bytes) const;

 private:
  std::span<const Document> documents_;
  BlockPlaces places_;
};

}  // namespace posenc::tasks
