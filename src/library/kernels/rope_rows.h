// Shared by RoPE and its frequency gradient: checks, cos/sin rows per token, and blocks of tokens for
// tasks.
#pragma once

#include <vector>

#include "core/aligned.h"
#include "kernels/cpu/rope_simd.h"
#include "posenc/encodings/rotary_cache.h"
#include "posenc/kernels/positions.h"

namespace posenc {

// Shapes, types, heads and positions of the inputs.
Status check_rope_inputs(const ConstTensorView& q, const ConstTensorView& k,
                         const RotaryCache* tables, const PositionsView& positions) noexcept;

cpu::RopeRowPlan rope_plan(const Rotary& rotary, DType dtype) noexcept;

// Rows of every token and axis, looked up once unless all are precomputed: afterwards no position can
// fail, and no thread waits for a table to grow.
class TokenRows {
 public:
  TokenRows(const RotaryCache& tables, const PositionsView& positions, Role role)
      : tables_(tables), positions_(positions), role_(role) {}

  Status find(std::int64_t batches, std::int64_t tokens);
  // Cos and sin of a token, groups x pairs entries each: the table's own row, or with several axes
  // `mixed`, each pair from the row of its own axis.
  struct MixedRow {
    float* cos;
    float* sin;
  };
  RotaryCache::Row load(std::int64_t b, std::int64_t t, float* scratch,
                        const MixedRow& mixed) const;

 private:
  [[nodiscard]] std::int64_t axes() const { return tables_.rotary().axes.axes; }
  [[nodiscard]] RotaryCache::Row row_of(std::int64_t b, std::int64_t t, std::int64_t axis,
                                        float* scratch) const;

  const RotaryCache& tables_;
  const PositionsView& positions_;
  Role role_;
  std::int64_t tokens_ = 0;
  std::vector<RotaryCache::Row> rows_;
};

// Tokens first .. first + count - 1 of one sequence.
struct RopeBlock {
  std::int64_t batch;
  std::int64_t first;
  std::int64_t count;
};

// How a tensor is cut into blocks, one task each.
class RopeBlocks {
 public:
  RopeBlocks(const ConstTensorView& x, const Rotary& rotary, const cpu::RopeRowPlan& plan) noexcept;
  [[nodiscard]] std::int64_t tasks() const noexcept;
  [[nodiscard]] RopeBlock at(std::int64_t task) const noexcept;
  [[nodiscard]] std::int64_t size() const noexcept { return size_; }  // tokens, at most

 private:
  std::int64_t batches_;
  std::int64_t tokens_;
  std::int64_t size_;
};

// What one thread needs: raw rows of a token, and the expanded angles of a block of tokens.
struct RopeScratch {
  RopeScratch(const RotaryCache& tables, const cpu::RopeRowPlan& plan, const RopeBlocks& blocks);

  std::size_t stride;  // floats from one token's angles to the next
  AlignedFloats row;
  AlignedFloats cos_sin;
  AlignedFloats cos;
  AlignedFloats sin;
};

// Fills the scratch with the angles of a block.
void load_angles(const TokenRows& rows, const Rotary& rotary, const cpu::RopeRowPlan& plan,
                 const RopeBlock& block, RopeScratch& scratch);

}  // namespace posenc
