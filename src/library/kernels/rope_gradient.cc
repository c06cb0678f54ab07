#include <algorithm>
#include <vector>

#include "core/thread_pool.h"
#include "kernels/guarded.h"
#include "kernels/rope_rows.h"
#include "kernels/view_checks.h"
#include "posenc/core/threads.h"
#include "posenc/kernels/rope.h"

namespace posenc {
namespace {

constexpr const char* kOp = "rope_frequency_gradient";

Status check_gradient(const char* name, const ConstTensorView& gradient, const char* of,
                      const ConstTensorView& tensor) noexcept {
  if (Status s = check_same_shape(kOp, name, gradient, of, tensor); !s.ok()) return s;
  return check_view(kOp, name, gradient);
}

Status check_call(const RopeFrequencyGradientCall& call) noexcept {
  if (Status s = check_rope_inputs(call.q, call.k, call.tables, call.positions); !s.ok()) return s;
  if (Status s = check_gradient("dq_out", call.dq_out, "q", call.q); !s.ok()) return s;
  if (call.k.present()) {
    if (Status s = check_gradient("dk_out", call.dk_out, "k", call.k); !s.ok()) return s;
  }
  const Rotary& rotary = call.tables->rotary();
  const auto wanted = static_cast<std::size_t>(rotary.groups() * rotary.pairs());
  if (call.dinv_freq.size() == wanted) return {};
  return Status::format(StatusCode::kInvalidArgument,
                        "[%s] dinv_freq must have one entry per group and pair (%zu) but got %zu",
                        kOp, wanted, call.dinv_freq.size());
}

// Adds what one block of tokens of q or k asks of the frequencies, token by token and head by head.
void add_block(const RopeFrequencyGradientCall& call, const cpu::RopeRowPlan& plan,
               const RopeBlock& block, const ConstTensorView& x, const ConstTensorView& dy,
               const RopeScratch& scratch, AlignedFloats& window, AlignedFloats& pair_sums,
               double* sums) {
  const Rotary& rotary = call.tables->rotary();
  const double sign = rotary.inverse ? -1.0 : 1.0;
  for (std::int64_t t = 0; t < block.count; ++t) {
    for (std::int64_t h = 0; h < x.heads(); ++h) {
      const auto group = static_cast<std::size_t>(rotary.group_of(h, x.heads()));
      const std::size_t at =
          static_cast<std::size_t>(t) * scratch.stride + group * cpu::expanded_size(plan);
      std::fill(pair_sums.begin(), pair_sums.end(), 0.0f);
      const std::int64_t row = x.row_offset(block.batch, h, block.first + t);
      const std::int64_t dy_row = dy.row_offset(block.batch, h, block.first + t);
      cpu::add_frequency_gradient(plan, static_cast<const std::byte*>(x.data) + row,
                                  static_cast<const std::byte*>(dy.data) + dy_row,
                                  {scratch.cos.data() + at, scratch.sin.data() + at}, window.data(),
                                  1.0f, pair_sums.data());
      for (std::size_t p = 0; p < plan.pairs; ++p) {
        const auto n = static_cast<double>(
            call.positions.at(block.batch, block.first + t, rotary.axes.axis_of_pair[p]));
        sums[group * plan.pairs + p] += sign * n * static_cast<double>(pair_sums[p]);
      }
    }
  }
}

Status run(const RopeFrequencyGradientCall& call) {
  const RotaryCache& tables = *call.tables;
  const cpu::RopeRowPlan plan = rope_plan(tables.rotary(), call.q.dtype);
  TokenRows query_rows(tables, call.positions, Role::kQuery);
  TokenRows key_rows(tables, call.positions, Role::kKey);
  if (Status s = query_rows.find(call.q.batch(), call.q.tokens()); !s.ok()) return s;
  if (Status s = key_rows.find(call.q.batch(), call.q.tokens()); !s.ok()) return s;
  const RopeBlocks blocks(call.q, tables.rotary(), plan);
  const std::int64_t tasks = blocks.tasks();
  const std::size_t entries = call.dinv_freq.size();
  std::vector<double> partial(static_cast<std::size_t>(tasks) * entries, 0.0);
  struct Mine {
    RopeScratch scratch;
    AlignedFloats window;
    AlignedFloats pair_sums;
  };
  std::vector<Mine> all(num_threads(),
                        Mine{RopeScratch(tables, plan, blocks), AlignedFloats(4 * plan.pairs),
                             AlignedFloats(plan.pairs)});
  parallel_for(tasks, [&](std::int64_t task, int worker) {
    Mine& mine = all[worker];
    double* sums = partial.data() + static_cast<std::size_t>(task) * entries;
    const RopeBlock block = blocks.at(task);
    load_angles(query_rows, tables.rotary(), plan, block, mine.scratch);
    add_block(call, plan, block, call.q, call.dq_out, mine.scratch, mine.window, mine.pair_sums,
              sums);
    if (!call.k.present()) return;
    load_angles(key_rows, tables.rotary(), plan, block, mine.scratch);
    add_block(call, plan, block, call.k, call.dk_out, mine.scratch, mine.window, mine.pair_sums,
              sums);
  });
  std::fill(call.dinv_freq.begin(), call.dinv_freq.end(), 0.0);
  for (std::size_t i = 0; i < partial.size(); ++i) call.dinv_freq[i % entries] += partial[i];
  return {};
}

}  // namespace

Status rope_frequency_gradient(const RopeFrequencyGradientCall& call) noexcept {
  if (Status s = check_call(call); !s.ok()) return s;
  return guarded(kOp, [&] { return run(call); });
}

}  // namespace posenc
