#include "posenc/kernels/attention_slices.h"

#include <algorithm>
#include <limits>

#include "core/thread_pool.h"
#include "kernels/attention_reference.h"
#include "kernels/guarded.h"
#include "kernels/path_trace.h"
#include "posenc/core/threads.h"

namespace posenc {
namespace {

constexpr const char* kOp = "attention_slice";

std::size_t row_count(const AttentionCall& call) {
  return static_cast<std::size_t>(call.q.batch() * call.q.heads() * call.q.tokens());
}

Status check_size(const char* name, std::size_t wanted, std::size_t got) {
  if (wanted == got) return {};
  return Status::format(StatusCode::kInvalidArgument,
                        "[attention_slice] %s must have %zu entries but got %zu", name, wanted,
                        got);
}

// What slices add to the checks of a call.
Status check_slice(const AttentionCall& call, const AttentionSlice& slice) {
  if (const std::string obstacle = slice_obstacle(*call.plan); !obstacle.empty()) {
    return Status::format(StatusCode::kUnsupported, "[attention_slice] %s", obstacle.c_str());
  }
  if (!call.mask.cu_queries.empty() || !call.mask.cu_keys.empty()) {
    return {StatusCode::kUnsupported,
            "[attention_slice] packed sequences are not supported; call attention() for each"};
  }
  if (call.q_positions.given() || call.k_positions.given()) {
    return {StatusCode::kUnsupported,
            "[attention_slice] positions are those of the slice; leave q_positions and k_positions "
            "out"};
  }
  if (slice.first_query < 0 || slice.first_key < 0) {
    return Status::format(StatusCode::kOutOfRange,
                          "[attention_slice] first_query and first_key must be at least 0 but got "
                          "%lld and %lld",
                          static_cast<long long>(slice.first_query),
                          static_cast<long long>(slice.first_key));
  }
  const bool sums = has_token_sums(*call.plan);
  const auto heads = static_cast<std::size_t>(call.q.batch() * call.q.heads());
  const auto keys = static_cast<std::size_t>(call.k.tokens());
  if (Status s = check_size("query_sums", sums ? row_count(call) : 0, slice.query_sums.size());
      !s.ok()) {
    return s;
  }
  return check_size("key_sums", sums ? heads * keys : 0, slice.key_sums.size());
}

Status check_rows(const AttentionCall& call, const SliceRows& rows) {
  const std::size_t count = row_count(call);
  if (Status s = check_size("rows", count, rows.sum.size()); !s.ok()) return s;
  return check_size("rows.out", count * static_cast<std::size_t>(call.v.channels()),
                    rows.out.size());
}

Status check_carried(const AttentionCall& call, const SliceGradients& gradients) {
  const std::size_t count = carries_sum(*call.plan) ? row_count(call) : 0;
  if (Status s = check_size("carry", 2 * count, gradients.carry.size()); !s.ok()) return s;
  if (Status s = check_size("prefix", count, gradients.prefix.size()); !s.ok()) return s;
  const bool sums = has_token_sums(*call.plan);
  const auto keys = static_cast<std::size_t>(call.q.batch() * call.q.heads() * call.k.tokens());
  if (Status s =
          check_size("dquery_sums", sums ? row_count(call) : 0, gradients.dquery_sums.size());
      !s.ok()) {
    return s;
  }
  return check_size("dkey_sums", sums ? keys : 0, gradients.dkey_sums.size());
}

// A block of queries of one head: where its rows are among all.
struct SliceTask {
  std::size_t segment;
  std::int64_t head;
  cpu::QueryBlock block;
  std::size_t first_row;
};

std::vector<SliceTask> slice_tasks(const AttentionSetup& setup) {
  std::vector<SliceTask> tasks;
  const std::int64_t heads = setup.state->shape.heads;
  const auto queries = static_cast<std::size_t>(setup.call->q.tokens());
  for (std::size_t s = 0; s < setup.segments.size(); ++s) {
    for (std::int64_t h = 0; h < heads; ++h) {
      const auto row = static_cast<std::size_t>(setup.segments[s].batch * heads + h) * queries;
      for (std::size_t first = 0; first < queries; first += cpu::kQueryBlock) {
        cpu::QueryBlock block;
        block.first = first;
        block.count = std::min(cpu::kQueryBlock, queries - first);
        tasks.push_back({s, h, block, row + first});
      }
    }
  }
  return tasks;
}

// The rows of a task, taken from all rows and put back.
cpu::RowState load_rows(const SliceRows& all, const cpu::HeadProblem& p, const SliceTask& task,
                        AlignedFloats& out) {
  cpu::RowState state = cpu::first_state(p);
  state.carry = cpu::idle_carry(p);
  std::fill(out.begin(), out.end(), 0.0f);
  for (std::size_t r = 0; r < task.block.count; ++r) {
    const std::size_t row = task.first_row + r;
    state.maximum[r] = all.maximum[row];
    state.sum[r] = all.sum[row];
    state.seen[r] = all.seen[row];
    state.carry[r] = all.carry[row];
    state.carry[cpu::kQueryBlock + r] = all.carry[all.sum.size() + row];
    std::copy_n(all.out.data() + row * p.value_dim, p.value_dim,
                out.data() + r * p.padded_value_dim);
  }
  return state;
}
void store_rows(const cpu::RowState& state, const cpu::HeadProblem& p, const SliceTask& task,
                const AlignedFloats& out, SliceRows& all) {
  for (std::size_t r = 0; r < task.block.count; ++r) {
    const std::size_t row = task.first_row + r;
    all.maximum[row] = state.maximum[r];
    all.sum[row] = state.sum[r];
    all.seen[row] = state.seen[r];
    all.carry[row] = state.carry[r];
    all.carry[all.sum.size() + row] = state.carry[cpu::kQueryBlock + r];
    std::copy_n(out.data() + r * p.padded_value_dim, p.value_dim,
                all.out.data() + row * p.value_dim);
  }
}

void add_task(const AttentionSetup& setup, SliceTask task, SliceRows& all, ForwardWorker& worker) {
  const Segment& s = setup.segments[task.segment];
  const cpu::HeadProblem p = setup.problem(s, task.head);
  read_queries(setup, s, task.head, worker, task.block);
  cpu::RowState state = load_rows(all, p, task, worker.out);
  cpu::attention_add_keys(p, task.block, worker.space, state, worker.out.data());
  store_rows(state, p, task, worker.out, all);
}

void finish_task(const AttentionSetup& setup, const SliceTask& task, const SliceRows& all,
                 ForwardWorker& worker) {
  const Segment& s = setup.segments[task.segment];
  const cpu::HeadProblem p = setup.problem(s, task.head);
  const cpu::RowState state = load_rows(all, p, task, worker.out);
  cpu::attention_finish_rows(p, task.block, state, worker.out.data(), worker.lse.data());
  write_outputs(setup, s, task.head, task.block, worker);
}

template <class Work>
Status run_slices(const AttentionCall& call, const AttentionSlice& slice, bool pack_rows,
                  const Work& work) {
  path_trace().forward = AttentionPath::kFused;
  AttentionSetup setup;
  if (Status s = prepare_attention(call, setup, pack_rows, &slice); !s.ok()) return s;
  const std::vector<SliceTask> tasks = slice_tasks(setup);
  std::vector<ForwardWorker> workers;
  for (int t = 0; t < num_threads(); ++t) workers.emplace_back(setup);
  parallel_for(std::ssize(tasks), [&](std::int64_t task, int worker) {
    work(setup, tasks[static_cast<std::size_t>(task)], workers[static_cast<std::size_t>(worker)]);
  });
  return {};
}

}  // namespace

SliceRows::SliceRows(const AttentionCall& call)
    : maximum(row_count(call), -std::numeric_limits<float>::infinity()),
      sum(row_count(call)),
      seen(row_count(call)),
      carry(2 * row_count(call)),
      out(row_count(call) * static_cast<std::size_t>(call.v.channels())) {
  if (!call.plan->terms().breaks_sticks) return;
  std::fill_n(carry.begin(), sum.size(), 1.0f);
}

bool carries_sum(const AttentionPlan& plan) {
  return plan.terms().cope.has_value() || plan.terms().breaks_sticks;
}
bool has_token_sums(const AttentionPlan& plan) { return plan.terms().token.has_value(); }

std::string slice_obstacle(const AttentionPlan& plan) {
  const Terms& terms = plan.terms();
  const auto name = [&](std::size_t index) {
    return std::string(traits(terms.spec.encodings[index]).name);
  };
  if (!terms.obstacle.empty()) return "no fused kernel supports this spec: " + terms.obstacle;
  if (terms.chain) {
    return name(*terms.chain) +
           " applies a step of every token to the query, which slices do not carry; use it on one "
           "process";
  }
  if (!terms.pairs.empty()) {
    return name(terms.pairs[0]) +
           " has a term for every pair of tokens, which slices do not split; use it on one process";
  }
  for (std::size_t r = 0; r < terms.rotary.size(); ++r) {
    if (rope_of_input(terms, r) == nullptr) continue;
    return name(terms.rotary[r]) +
           " takes its angles from an input, which slices do not sum up; set angles=position, or "
           "use it on one process";
  }
  if (terms.rotates_values) return "rope(values=true) is not supported in slices; set values=false";
  const auto* relative = terms.config<RelativeQuery>(terms.relative_query);
  if (relative != nullptr && relative->reads_input()) {
    return "relative_query with a separate input is not supported in slices; let it read the "
           "query";
  }
  const auto* fox = terms.config<Fox>(terms.token);
  if (fox != nullptr && fox->prune) {
    return "fox(prune=true) needs all keys to decide what to leave out; set prune=false";
  }
  return "";
}

Status attention_slice(const AttentionCall& call, const AttentionSlice& slice,
                       SliceRows& rows) noexcept {
  if (Status s = check_attention(call); !s.ok()) return s;
  return guarded(kOp, [&]() -> Status {
    if (Status s = check_slice(call, slice); !s.ok()) return s;
    if (Status s = check_rows(call, rows); !s.ok()) return s;
    if (call.q.empty() || call.k.empty()) return {};
    return run_slices(call, slice, true,
                      [&](const AttentionSetup& setup, const SliceTask& task,
                          ForwardWorker& worker) { add_task(setup, task, rows, worker); });
  });
}

Status finish_slices(const AttentionCall& call, const AttentionSlice& slice,
                     SliceRows& rows) noexcept {
  if (Status s = check_attention(call); !s.ok()) return s;
  return guarded(kOp, [&]() -> Status {
    if (Status s = check_slice(call, slice); !s.ok()) return s;
    if (Status s = check_rows(call, rows); !s.ok()) return s;
    if (call.q.empty()) return {};
    return run_slices(call, slice, false,
                      [&](const AttentionSetup& setup, const SliceTask& task,
                          ForwardWorker& worker) { finish_task(setup, task, rows, worker); });
  });
}

Status attention_slice_backward(const AttentionBackwardCall& call, const AttentionSlice& slice,
                                const SliceGradients& gradients) noexcept {
  if (Status s = check_backward(call, true); !s.ok()) return s;
  return guarded(kOp, [&]() -> Status {
    if (Status s = check_slice(call.forward, slice); !s.ok()) return s;
    if (Status s = check_carried(call.forward, gradients); !s.ok()) return s;
    return run_backward(call, &slice, gradients);
  });
}

}  // namespace posenc
