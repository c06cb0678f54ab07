#include "posenc/kernels/rope.h"

#include <vector>

#include "core/thread_pool.h"
#include "kernels/guarded.h"
#include "kernels/rope_rows.h"
#include "kernels/view_checks.h"
#include "posenc/core/threads.h"

namespace posenc {
namespace {

constexpr const char* kOp = "rope";

Status check_call(const RopeCall& call) noexcept {
  if (Status s = check_rope_inputs(call.q, call.k, call.tables, call.positions); !s.ok()) return s;
  if (Status s = check_same_shape(kOp, "q_out", call.q_out, "q", call.q); !s.ok()) return s;
  if (Status s = check_view(kOp, "q_out", call.q_out); !s.ok()) return s;
  if (Status s = check_output(kOp, "q_out", call.q_out, call.q); !s.ok()) return s;
  if (!call.k.present()) return {};
  if (Status s = check_same_shape(kOp, "k_out", call.k_out, "k", call.k); !s.ok()) return s;
  if (Status s = check_view(kOp, "k_out", call.k_out); !s.ok()) return s;
  return check_output(kOp, "k_out", call.k_out, call.k);
}

const std::byte* first_row(const ConstTensorView& x, const RopeBlock& block) {
  if (!x.present() || x.empty()) return nullptr;
  return static_cast<const std::byte*>(x.data) + x.row_offset(block.batch, 0, block.first);
}

// All heads of a block; `then` is the tensor whose first head comes after the last one.
void turn_block(const Rotary& rotary, const cpu::RopeRowPlan& plan, const RopeBlock& block,
                const ConstTensorView& in, const TensorView& out, const RopeScratch& scratch,
                const ConstTensorView& then) {
  const auto element = static_cast<std::ptrdiff_t>(dtype_size(in.dtype));
  const auto* data = static_cast<const std::byte*>(in.data);
  for (std::int64_t h = 0; h < in.heads(); ++h) {
    const std::size_t at =
        static_cast<std::size_t>(rotary.group_of(h, in.heads())) * cpu::expanded_size(plan);
    const std::byte* next = h + 1 < in.heads()
                                ? data + in.row_offset(block.batch, h + 1, block.first)
                                : first_row(then, block);
    cpu::turn_rows(plan, data + in.row_offset(block.batch, h, block.first), in.stride[2] * element,
                   static_cast<std::byte*>(out.data) + out.row_offset(block.batch, h, block.first),
                   out.stride[2] * element, static_cast<std::size_t>(block.count),
                   {scratch.cos.data() + at, scratch.sin.data() + at}, scratch.stride, next);
  }
}

Status run(const RopeCall& call) {
  const RotaryCache& tables = *call.tables;
  const Rotary& rotary = tables.rotary();
  cpu::RopeRowPlan plan = rope_plan(rotary, call.q.dtype);
  plan.back = call.transposed;
  if (plan.dtype == DType::kBfloat16) {
    plan.word_pairs = cpu::word_pairs(plan.interleaved, plan.pairs);
  }
  const std::int64_t tokens = call.q.tokens();
  TokenRows query_rows(tables, call.positions, Role::kQuery);
  TokenRows key_rows(tables, call.positions, Role::kKey);
  const bool apart =
      call.k.present() && !rotary.log_zeta.empty();  // xPos: keys have their own rows
  if (Status s = query_rows.find(call.q.batch(), tokens); !s.ok()) return s;
  if (apart) {
    if (Status s = key_rows.find(call.q.batch(), tokens); !s.ok()) return s;
  }
  const RopeBlocks blocks(call.q, rotary, plan);
  std::vector<RopeScratch> scratch(num_threads(), RopeScratch(tables, plan, blocks));
  parallel_for(blocks.tasks(), [&](std::int64_t task, int worker) {
    RopeScratch& mine = scratch[worker];
    const RopeBlock block = blocks.at(task);
    load_angles(query_rows, rotary, plan, block, mine);
    turn_block(rotary, plan, block, call.q, call.q_out, mine, call.k);
    if (!call.k.present()) return;
    if (apart) load_angles(key_rows, rotary, plan, block, mine);
    turn_block(rotary, plan, block, call.k, call.k_out, mine, {});
  });
  return {};
}

}  // namespace

Status rope(const RopeCall& call) noexcept {
  if (Status s = check_call(call); !s.ok()) return s;
  if (call.q.empty() && (!call.k.present() || call.k.empty())) return {};
  return guarded(kOp, [&] { return run(call); });
}

}  // namespace posenc
