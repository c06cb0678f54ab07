#include "kernels/paged_cache.h"

#include "kernels/attention_plan.h"
#include "kernels/cpu/rows_simd.h"
#include "kernels/view_checks.h"

namespace posenc {
namespace {

constexpr const char* kOp = "attention";
using Long = long long;

// The pages and lengths alone.
Status check_sizes(const BlockTable& table, std::int64_t batch) {
  if (table.page <= 0) {
    return Status::format(StatusCode::kInvalidArgument,
                          "[attention] block_table.page must be positive but got %lld; it is the "
                          "number of tokens of a page",
                          static_cast<Long>(table.page));
  }
  const bool strided = table.stride == 0 || table.stride >= table.blocks;
  if (table.blocks < 0 || !strided) {
    return Status::format(StatusCode::kInvalidArgument,
                          "[attention] block_table.blocks must be >= 0 and its stride 0 or at "
                          "least blocks but got %lld and %lld",
                          static_cast<Long>(table.blocks), static_cast<Long>(table.stride));
  }
  if (std::ssize(table.lengths) != batch) {
    return Status::format(StatusCode::kInvalidArgument,
                          "[attention] block_table.lengths must have %lld entries, one per batch "
                          "entry of q, but got %lld",
                          static_cast<Long>(batch), static_cast<Long>(std::ssize(table.lengths)));
  }
  if (table.pages != nullptr || table.blocks == 0 || batch == 0) return {};
  return {StatusCode::kInvalidArgument, "[attention] block_table.pages must not be null"};
}

// The entries of a batch entry that its length makes readable. Pages of 2^62 tokens do not overflow.
Status check_row(const BlockTable& table, std::int64_t batch, std::int64_t pool) {
  const std::int64_t length = table.lengths[batch];
  const std::int64_t used = length / table.page + (length % table.page != 0 ? 1 : 0);
  if (length < 0 || used > table.blocks) {
    return Status::format(StatusCode::kOutOfRange,
                          "[attention] block_table.lengths[%lld] must be from 0 to %lld pages of "
                          "%lld tokens but got %lld; give the table a page for every token",
                          static_cast<Long>(batch), static_cast<Long>(table.blocks),
                          static_cast<Long>(table.page), static_cast<Long>(length));
  }
  for (std::int64_t n = 0; n < used; ++n) {
    const std::int64_t page = table.page_of(batch, n * table.page);
    if (page >= 0 && page < pool) continue;
    return Status::format(StatusCode::kOutOfRange,
                          "[attention] block_table[%lld][%lld] must be a page of the pool, 0 to "
                          "%lld, but got %lld",
                          static_cast<Long>(batch), static_cast<Long>(n),
                          static_cast<Long>(pool - 1), static_cast<Long>(page));
  }
  return {};
}

// A pool has the pages of k; the output is none of it.
Status check_pool(const char* name, const ConstTensorView& x, const AttentionCall& call) {
  if (Status s = check_cache_view(kOp, name, x); !s.ok()) return s;
  const BlockTable& table = call.block_table;
  if (x.tokens() != table.page) {
    return Status::format(StatusCode::kInvalidArgument,
                          "[attention] %s must be a pool [pages, heads, page, channels] with %lld "
                          "tokens to a page, as block_table.page says, but got %lld; transposed() "
                          "makes it of [pages, page, heads, channels]",
                          name, static_cast<Long>(table.page), static_cast<Long>(x.tokens()));
  }
  if (x.shape[0] != call.k.shape[0]) {
    return Status::format(StatusCode::kInvalidArgument,
                          "[attention] %s must have %lld pages as k has but got %lld", name,
                          static_cast<Long>(call.k.shape[0]), static_cast<Long>(x.shape[0]));
  }
  return check_output(kOp, "out", call.out, x);
}

Status check_pools(const AttentionCall& call) {
  if (Status s = check_pool("k", call.k, call); !s.ok()) return s;
  if (Status s = check_pool("v", call.v, call); !s.ok()) return s;
  const std::vector<SpecInput>& wanted = call.plan->state().inputs;
  for (std::size_t i = 0; i < std::min(wanted.size(), call.inputs.size()); ++i) {
    if (Status s = check_pool(wanted[i].info.name.c_str(), call.inputs[i], call); !s.ok()) return s;
  }
  for (const auto& [name, scales] :
       {std::pair{"k_scales", &call.k_scales}, std::pair{"v_scales", &call.v_scales}}) {
    if (!scales->present()) continue;
    if (Status s = check_pool(name, *scales, call); !s.ok()) return s;
  }
  return {};
}

// What a paged call cannot have, though a call may.
Status check_options(const AttentionCall& call) {
  const char* refused = nullptr;
  if (!call.mask.cu_queries.empty() || !call.mask.cu_keys.empty()) refused = "packed sequences";
  if (call.dropout.rate != 0.0) refused = "dropout";
  if (refused == nullptr) return {};
  return Status::format(StatusCode::kUnsupported,
                        "[attention] block_table does not work with %s; leave it out", refused);
}

}  // namespace

Status check_block_table(const AttentionCall& call) {
  if (call.plan == nullptr) {
    return {StatusCode::kInvalidArgument, "[attention] plan must not be null"};
  }
  if (Status s = check_options(call); !s.ok()) return s;
  if (Status s = check_sizes(call.block_table, call.q.batch()); !s.ok()) return s;
  if (Status s = check_pools(call); !s.ok()) return s;
  return check_table(call.block_table, call.q.batch(), call.k.shape[0]);
}

Status check_table(const BlockTable& table, std::int64_t batch, std::int64_t pool) {
  if (Status s = check_sizes(table, batch); !s.ok()) return s;
  for (std::int64_t b = 0; b < batch; ++b) {
    if (Status s = check_row(table, b, pool); !s.ok()) return s;
  }
  return {};
}

PagedCall::PagedCall(const AttentionCall& pools)
    : call(pools), inputs_(pools.inputs.begin(), pools.inputs.end()) {
  const auto unfold = [&](ConstTensorView& x) {
    if (!x.present()) return;
    x.shape = {call.q.batch(), x.heads(), call.block_table.longest(), x.channels()};
  };
  for (ConstTensorView* x : {&call.k, &call.v, &call.k_scales, &call.v_scales}) unfold(*x);
  for (ConstTensorView& input : inputs_) unfold(input);
  call.inputs = inputs_;
}

namespace {

PositionsView entry_of(PositionsView all, std::int64_t batch) {
  if (!all.offsets.empty()) all.offsets = all.offsets.subspan(batch, 1);
  if (all.ids == nullptr) return all;
  const std::int64_t size = all.ids_are_64_bit ? sizeof(std::int64_t) : sizeof(std::int32_t);
  all.ids = static_cast<const std::byte*>(all.ids) + batch * all.batch_stride * size;
  return all;
}

}  // namespace

PagedEntry::PagedEntry(const AttentionCall& paged, std::int64_t batch)
    : call(paged), inputs_(paged.inputs.begin(), paged.inputs.end()) {
  BlockTable& table = call.block_table;
  table.pages = table.row(batch);
  table.lengths = table.lengths.subspan(batch, 1);
  for (ConstTensorView* x : {&call.k, &call.v})
    x->shape = {1, x->heads(), table.lengths[0], x->channels()};
  for (ConstTensorView& x : inputs_) x.shape = {1, x.heads(), table.lengths[0], x.channels()};
  call.inputs = inputs_;
  call.q.data = static_cast<const std::byte*>(paged.q.data) + paged.q.row_offset(batch, 0, 0);
  call.out.data = static_cast<std::byte*>(paged.out.data) + paged.out.row_offset(batch, 0, 0);
  call.q.shape[0] = call.out.shape[0] = 1;
  if (!call.lse.empty()) {
    const std::int64_t rows = call.q.heads() * call.q.tokens();
    call.lse = call.lse.subspan(batch * rows, rows);
  }
  if (call.mask.key_mask != nullptr) call.mask.key_mask += batch * paged.k.tokens();
  call.q_positions = entry_of(paged.q_positions, batch);
  call.k_positions = entry_of(paged.k_positions, batch);
}

const std::ptrdiff_t* RowOffsets::find(const BlockTable& table, const ConstTensorView& x,
                                       std::int64_t batch, std::int64_t first, std::int64_t count) {
  const auto size = static_cast<std::ptrdiff_t>(dtype_size(x.dtype));
  const Key key{batch, first, x.stride[0] * size, x.stride[2] * size};
  if (key == last_) return offsets_.data();
  last_ = key;
  const std::int64_t known = std::min<std::int64_t>(count, std::ssize(offsets_));
  const auto* base = static_cast<const std::byte*>(x.data);
  for_each_run(table, x, batch, 0, first, known,
               [&](std::int64_t place, std::int64_t run, const std::byte* data) {
                 for (std::int64_t j = 0; j < run; ++j) {
                   offsets_[place + j] = data - base + j * key.row_stride;
                 }
               });
  std::fill(offsets_.begin() + known, offsets_.end(), offsets_[known - 1]);
  return offsets_.data();
}

void read_key_row(const BlockTable& table, const ConstTensorView& x, std::int64_t batch,
                  std::int64_t head, std::int64_t t, std::size_t padded_dim, float* out) {
  const auto size = static_cast<std::size_t>(x.channels());
  const auto* row = static_cast<const std::byte*>(x.data) + key_offset(table, x, batch, head, t);
  cpu::row_to_float(x.dtype, row, size, out);
  std::fill(out + size, out + padded_dim, 0.0f);
}

}  // namespace posenc
