// Paged caches, as vLLM and flash-attention have them: a pool of pages, and a table of the pages of each sequence.
//
//   token t of batch entry b is row t % page of page pages[b * stride + t / page]
//
// Attention reads them where they are. Each tensor with a row per key (k, v, the scales of int8 rows, the inputs of
// encodings) is then a pool with the same pages, as a view [pages, heads, page, channels]. Pools in vLLM's order
// [pages, page, heads, channels] give such a view with transposed(). A sequence has its own length, so Tk of masks and
// positions is the longest of them. Forward calls only: no gradients, no dropout, no packed sequences.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

namespace posenc {

struct BlockTable {
  const std::int32_t* pages = nullptr;  // [batch, blocks]; entries past a length are not read
  std::int64_t blocks = 0;              // entries of a row of the table
  std::int64_t stride = 0;              // from row to row; 0: `blocks`
  std::int64_t page = 0;                // tokens of a page: the third dimension of the pools
  std::span<const std::int64_t> lengths = {};  // [batch]: tokens of each sequence

  [[nodiscard]] bool given() const noexcept { return page != 0 || pages != nullptr; }
  // Tk of the call.
  [[nodiscard]] std::int64_t longest() const noexcept {
    return lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
  }
  // The pages of a sequence.
  [[nodiscard]] const std::int32_t* row(std::int64_t batch) const noexcept {
    return pages + batch * (stride != 0 ? stride : blocks);
  }
  // The page of token t; it must be one of the sequence.
  [[nodiscard]] std::int64_t page_of(std::int64_t batch, std::int64_t t) const noexcept {
    return row(batch)[t / page];
  }
};

}  // namespace posenc

// SPDX-License-Identifier: MIT
