#include "kernels/rope_rows.h"

#include <algorithm>

#include "kernels/view_checks.h"

namespace posenc {
namespace {

constexpr const char* kOp = "rope";
// Angles of a block of tokens stay in the first level of cache, and its rows of one head are a run long
// enough for the next head's to arrive meanwhile.
constexpr std::size_t kAngleBytes = 32 * 1024;
constexpr std::int64_t kMostTokens = 64;

using Long = long long;

Status check_tensor(const char* name, const ConstTensorView& x, const Rotary& rotary) noexcept {
  if (Status s = check_view(kOp, name, x); !s.ok()) return s;
  if (x.channels() != rotary.head_dim) {
    return Status::format(StatusCode::kInvalidArgument,
                          "[rope] %s must have head_dim %lld channels but got %lld", name,
                          static_cast<Long>(rotary.head_dim), static_cast<Long>(x.channels()));
  }
  if (x.heads() % rotary.groups() != 0) {
    return Status::format(
        StatusCode::kInvalidArgument,
        "[rope] %s must have a multiple of %lld heads, one set of frequencies each, "
        "but got %lld",
        name, static_cast<Long>(rotary.groups()), static_cast<Long>(x.heads()));
  }
  return {};
}

}  // namespace

Status check_rope_inputs(const ConstTensorView& q, const ConstTensorView& k,
                         const RotaryCache* tables, const PositionsView& positions) noexcept {
  if (tables == nullptr) return {StatusCode::kInvalidArgument, "[rope] tables must not be null"};
  if (Status s = check_tensor("q", q, tables->rotary()); !s.ok()) return s;
  if (k.present()) {
    if (Status s = check_tensor("k", k, tables->rotary()); !s.ok()) return s;
    if (k.batch() != q.batch() || k.tokens() != q.tokens() || k.dtype != q.dtype) {
      return Status::format(
          StatusCode::kInvalidArgument,
          "[rope] k must have the batch, tokens and type of q (%lld, %lld, %s) but "
          "got %lld, %lld, %s",
          static_cast<Long>(q.batch()), static_cast<Long>(q.tokens()), dtype_name(q.dtype),
          static_cast<Long>(k.batch()), static_cast<Long>(k.tokens()), dtype_name(k.dtype));
    }
  }
  if (Status s = positions.check(kOp, q.batch(), q.tokens()); !s.ok()) return s;
  return positions.check_values(kOp, "positions", q.batch(), q.tokens(),
                                tables->rotary().axes.axes);
}

cpu::RopeRowPlan rope_plan(const Rotary& rotary, DType dtype) noexcept {
  return {dtype, rotary.layout == PairLayout::kInterleaved,
          static_cast<std::size_t>(rotary.pairs()), static_cast<std::size_t>(rotary.dim_offset),
          static_cast<std::size_t>(rotary.head_dim)};
}

Status TokenRows::find(std::int64_t batches, std::int64_t tokens) {
  tokens_ = tokens;
  const CachePolicy& policy = tables_.policy();
  if (policy.mode == CachePolicy::Mode::kOnDemand || batches * tokens == 0) return {};
  const PositionsView::Range range = positions_.range(batches, tokens, axes());
  if (range.least >= 0 && range.most < policy.length) return {};  // precomputed: none can fail
  rows_.resize(batches * tokens * axes());
  std::size_t at = 0;
  for (std::int64_t b = 0; b < batches; ++b) {
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int64_t axis = 0; axis < axes(); ++axis) {
        const std::int64_t position = positions_.at(b, t, axis);
        if (Status s = tables_.find_row(role_, position, &rows_[at++]); !s.ok()) return s;
      }
    }
  }
  return {};
}

RotaryCache::Row TokenRows::row_of(std::int64_t b, std::int64_t t, std::int64_t axis,
                                   float* scratch) const {
  if (!rows_.empty()) return rows_[(b * tokens_ + t) * axes() + axis];
  return tables_.row(role_, positions_.at(b, t, axis), {scratch, tables_.row_floats()});
}

RotaryCache::Row TokenRows::load(std::int64_t b, std::int64_t t, float* scratch,
                                 const MixedRow& mixed) const {
  if (axes() == 1) return row_of(b, t, 0, scratch);
  const Rotary& rotary = tables_.rotary();
  const auto pairs = static_cast<std::size_t>(rotary.pairs());
  const std::size_t entries = static_cast<std::size_t>(rotary.groups()) * pairs;
  for (std::int64_t axis = 0; axis < axes(); ++axis) {
    const RotaryCache::Row row = row_of(b, t, axis, scratch);
    for (std::size_t at = 0; at < entries; ++at) {
      if (rotary.axes.axis_of_pair[at % pairs] != axis) continue;
      mixed.cos[at] = row.cos[at];
      mixed.sin[at] = row.sin[at];
    }
  }
  return {mixed.cos, mixed.sin};
}

RopeBlocks::RopeBlocks(const ConstTensorView& x, const Rotary& rotary,
                       const cpu::RopeRowPlan& plan) noexcept
    : batches_(x.batch()), tokens_(x.tokens()) {
  const std::size_t bytes = 2 * sizeof(float) * static_cast<std::size_t>(rotary.groups()) *
                            std::max<std::size_t>(cpu::expanded_size(plan), 1);
  size_ = std::clamp<std::int64_t>(static_cast<std::int64_t>(kAngleBytes / bytes), 1, kMostTokens);
}

std::int64_t RopeBlocks::tasks() const noexcept {
  return batches_ * ((tokens_ + size_ - 1) / size_);
}

RopeBlock RopeBlocks::at(std::int64_t task) const noexcept {
  const std::int64_t per_batch = (tokens_ + size_ - 1) / size_;
  const std::int64_t first = task % per_batch * size_;
  return {task / per_batch, first, std::min(size_, tokens_ - first)};
}

RopeScratch::RopeScratch(const RotaryCache& tables, const cpu::RopeRowPlan& plan,
                         const RopeBlocks& blocks)
    : stride(static_cast<std::size_t>(tables.rotary().groups()) * cpu::expanded_size(plan)),
      row(tables.row_floats()),
      cos_sin(tables.row_floats()),
      cos(static_cast<std::size_t>(blocks.size()) * stride),
      sin(cos.size()) {}

void load_angles(const TokenRows& rows, const Rotary& rotary, const cpu::RopeRowPlan& plan,
                 const RopeBlock& block, RopeScratch& scratch) {
  const std::size_t half = scratch.cos_sin.size() / 2;
  const std::size_t size = cpu::expanded_size(plan);
  for (std::int64_t t = 0; t < block.count; ++t) {
    const RotaryCache::Row row = rows.load(block.batch, block.first + t, scratch.row.data(),
                                           {scratch.cos_sin.data(), scratch.cos_sin.data() + half});
    for (std::size_t g = 0; g < static_cast<std::size_t>(rotary.groups()); ++g) {
      const std::size_t to = static_cast<std::size_t>(t) * scratch.stride + g * size;
      cpu::expand_angles(plan, row.cos + g * plan.pairs, row.sin + g * plan.pairs,
                         scratch.cos.data() + to, scratch.sin.data() + to);
    }
  }
}

}  // namespace posenc
