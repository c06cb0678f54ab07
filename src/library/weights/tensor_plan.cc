#include "weights/tensor_plan.h"

#include <algorithm>
#include <cstring>

#include "posenc/core/error.h"

namespace posenc::weights {
namespace {

constexpr std::uint64_t kPiece = 4U << 20U;

// `units` whole blocks that lie in `in` side by side, their rows brought into order.
void reorder(const std::vector<std::uint32_t>& rows, std::size_t row_bytes,
             std::span<const std::byte> in, std::span<std::byte> out) {
  const std::size_t block = rows.size() * row_bytes;
  for (std::size_t begin = 0; begin < in.size(); begin += block) {
    for (std::size_t r = 0; r < rows.size(); ++r) {
      std::memcpy(&out[begin + r * row_bytes], &in[begin + rows[r] * row_bytes], row_bytes);
    }
  }
}

}  // namespace

void Streamer::check_stop() const {
  if (stop_ != nullptr && stop_->load()) {
    throw Error(ErrorKind::kIo, {.scope = "convert",
                                 .key = "",
                                 .rule = "was interrupted",
                                 .value = "",
                                 .hint = "nothing was changed"});
  }
}

void Streamer::copy_bytes(const Reader& reader, const TensorInfo& tensor, std::uint64_t begin,
                          std::uint64_t end, Writer& writer) {
  while (begin < end) {
    check_stop();
    in_.resize(std::min(kPiece, end - begin));
    reader.read(tensor, begin, in_);
    writer.append(in_);
    begin += in_.size();
  }
}

// Many blocks at a time where they are small; row by row where one block is larger than a piece.
void Streamer::copy_blocks(const Reader& reader, const TensorPlan& plan, std::uint64_t begin,
                           const RowBlocks& blocks, Writer& writer) {
  const std::uint64_t block = blocks.rows.size() * plan.row_bytes;
  const std::uint64_t end = begin + blocks.count * block;
  if (block > kPiece) {
    for (; begin < end; begin += block) {
      for (const std::uint64_t row : blocks.rows) {
        const std::uint64_t at = begin + row * plan.row_bytes;
        copy_bytes(reader, plan.source, at, at + plan.row_bytes, writer);
      }
    }
    return;
  }
  while (begin < end) {
    check_stop();
    in_.resize(std::min(kPiece / block * block, end - begin));
    out_.resize(in_.size());
    reader.read(plan.source, begin, in_);
    reorder(blocks.rows, plan.row_bytes, in_, out_);
    writer.append(out_);
    begin += in_.size();
  }
}

void Streamer::copy(const Reader& reader, const TensorPlan& plan, Writer& writer) {
  const TensorInfo& tensor = plan.source;
  std::uint64_t begin = plan.first_row * plan.row_bytes;
  copy_bytes(reader, tensor, 0, begin, writer);
  for (const RowBlocks& blocks : plan.blocks) {
    copy_blocks(reader, plan, begin, blocks, writer);
    begin += blocks.count * blocks.rows.size() * plan.row_bytes;
  }
  copy_bytes(reader, tensor, begin, tensor.size(), writer);
}

}  // namespace posenc::weights
