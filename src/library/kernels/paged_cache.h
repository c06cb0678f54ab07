// Where the rows of keys are: in their tensor, or in the pages of a block table (posenc/kernels/block_table.h).
#pragma once

#include <vector>

#include "kernels/attention_call.h"

namespace posenc {

// Every field of the table, and the pools of the call: after it no read leaves them.
Status check_block_table(const AttentionCall& call);
// The table alone, for a batch and a pool of so many pages.
Status check_table(const BlockTable& table, std::int64_t batch, std::int64_t pool);

// The call as kernels take it: tensors with a row per key have the shape of a cache without pages, [B, heads, Tk,
// channels], and the strides of their pools. Only the functions below find their rows.
struct PagedCall {
  explicit PagedCall(const AttentionCall& pools);
  PagedCall(const PagedCall&) = delete;
  PagedCall& operator=(const PagedCall&) = delete;

  AttentionCall call;

 private:
  std::vector<ConstTensorView> inputs_;
};

// A batch entry of such a call, for the reference: it has one length for all entries.
struct PagedEntry {
  PagedEntry(const AttentionCall& paged, std::int64_t batch);
  PagedEntry(const PagedEntry&) = delete;
  PagedEntry& operator=(const PagedEntry&) = delete;

  AttentionCall call;

 private:
  std::vector<ConstTensorView> inputs_;
};

// Keys of a batch entry.
inline std::int64_t key_count(const AttentionCall& call, std::int64_t batch) {
  return call.block_table.given() ? call.block_table.lengths[batch] : call.k.tokens();
}

// The start of a row of a tensor with a row per key, in bytes from its data.
inline std::int64_t key_offset(const BlockTable& table, const ConstTensorView& x,
                               std::int64_t batch, std::int64_t head, std::int64_t t) {
  if (!table.given()) return x.row_offset(batch, head, t);
  return x.row_offset(table.page_of(batch, t), head, t % table.page);
}
// read_row() of such a tensor.
void read_key_row(const BlockTable& table, const ConstTensorView& x, std::int64_t batch,
                  std::int64_t head, std::int64_t t, std::size_t padded_dim, float* out);

// Calls body(place, count, data) for each run of rows from token `first` on that are stride[2] apart. `place` is the
// first of them among all, and `data` is where it starts.
template <class Body>
void for_each_run(const BlockTable& table, const ConstTensorView& x, std::int64_t batch,
                  std::int64_t head, std::int64_t first, std::int64_t count, const Body& body) {
  const auto* data = static_cast<const std::byte*>(x.data);
  if (!table.given()) return body(0, count, data + x.row_offset(batch, head, first));
  std::int64_t row = first % table.page;
  const std::int32_t* page = table.row(batch) + first / table.page;
  for (std::int64_t done = 0; done < count; row = 0, ++page) {
    const std::int64_t run = std::min(count - done, table.page - row);
    body(done, run, data + x.row_offset(*page, head, row));
    done += run;
  }
}

// Where rows of keys in pages are: in bytes from their head in page 0, the same for all heads.
class RowOffsets {
 public:
  explicit RowOffsets(std::size_t rows) : offsets_(rows) {}
  // Of `count` keys of a batch entry from token `first` on; the last one again for rows past them. The offsets that were
  // found last are kept.
  const std::ptrdiff_t* find(const BlockTable& table, const ConstTensorView& x, std::int64_t batch,
                             std::int64_t first, std::int64_t count);

 private:
  struct Key {
    std::int64_t batch = -1;
    std::int64_t first = 0;
    std::ptrdiff_t page_stride = 0;
    std::ptrdiff_t row_stride = 0;
    bool operator==(const Key&) const = default;
  };
  Key last_;
  std::vector<std::ptrdiff_t> offsets_;
};

}  // namespace posenc
