// The action for one tensor, and the streaming code that performs it.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "posenc/weights/convert.h"

namespace posenc::weights {

// `count` blocks of rows.size() rows each; row r of a block comes from row rows[r] of the same block.
struct RowBlocks {
  std::vector<std::uint32_t> rows;
  std::uint64_t count = 0;

  bool operator==(const RowBlocks&) const = default;
};

struct TensorPlan {
  TensorInfo source;
  TensorAction action = TensorAction::kCopied;
  std::string note;
  // kPermuted: blocks one after the other; rows that follow the last one stay in place.
  std::uint64_t first_row = 0;  // rows before the blocks, which stay in place too
  std::vector<RowBlocks> blocks;
  std::uint64_t row_bytes = 0;
};

class Streamer {
 public:
  explicit Streamer(const std::atomic<bool>* stop) : stop_(stop) {}
  // Appends the tensor as planned to the writer.
  void copy(const Reader& reader, const TensorPlan& plan, Writer& writer);

 private:
  void copy_bytes(const Reader& reader, const TensorInfo& tensor, std::uint64_t begin,
                  std::uint64_t end, Writer& writer);
  void copy_blocks(const Reader& reader, const TensorPlan& plan, std::uint64_t begin,
                   const RowBlocks& blocks, Writer& writer);
  void check_stop() const;

  const std::atomic<bool>* stop_;
  std::vector<std::byte> in_;
  std::vector<std::byte> out_;
};

}  // namespace posenc::weights
