#include "posenc/kernels/attention.h"

#include <algorithm>

#include "core/thread_pool.h"
#include "kernels/attention_plan.h"
#include "kernels/attention_reference.h"
#include "kernels/guarded.h"
#include "kernels/paged_cache.h"
#include "kernels/pair_terms.h"
#include "kernels/path_trace.h"
#include "posenc/core/threads.h"

namespace posenc {
namespace {

struct Task {
  std::size_t segment;
  std::int64_t head;
  std::int64_t first;  // query
};

// Blocks of queries, the longest rows first, so that threads end together.
std::vector<Task> tasks_of(const AttentionSetup& setup) {
  std::vector<Task> tasks;
  const auto block = static_cast<std::int64_t>(cpu::kQueryBlock);
  std::int64_t count = 0;
  for (const Segment& s : setup.segments) count += (s.queries + block - 1) / block;
  tasks.reserve(static_cast<std::size_t>(count * setup.state->shape.heads));
  for (std::size_t s = 0; s < setup.segments.size(); ++s) {
    const std::int64_t blocks = (setup.segments[s].queries + block - 1) / block;
    for (std::int64_t b = blocks; b-- > 0;) {
      for (std::int64_t h = 0; h < setup.state->shape.heads; ++h)
        tasks.push_back({s, h, b * block});
    }
  }
  return tasks;
}

void run_task(const AttentionSetup& setup, const Task& task, ForwardWorker& worker) {
  const Segment& s = setup.segments[task.segment];
  cpu::QueryBlock block;
  block.first = static_cast<std::size_t>(task.first);
  block.count = std::min(cpu::kQueryBlock, static_cast<std::size_t>(s.queries - task.first));
  read_queries(setup, s, task.head, worker, block);
  fill_pairs(setup, s, task.head, block, worker.space.pairs);
  cpu::attention_forward_block(setup.problem(s, task.head), block, worker.space, worker.out.data(),
                               worker.lse.data());
  write_outputs(setup, s, task.head, block, worker);
}

Status run_fused(const AttentionCall& call) {
  path_trace().forward = AttentionPath::kFused;
  AttentionSetup setup;
  if (Status s = prepare_attention(call, setup); !s.ok()) return s;
  const std::vector<Task> tasks = tasks_of(setup);
  std::vector<ForwardWorker> workers;
  for (int t = 0; t < num_threads(); ++t) workers.emplace_back(setup);
  parallel_for(std::ssize(tasks), [&](std::int64_t task, int worker) {
    run_task(setup, tasks[task], workers[worker]);
  });
  return {};
}

Status run_forward(const AttentionCall& call) noexcept {
  if (Status s = check_attention(call, KeyTypes::kAny); !s.ok()) return s;
  if (call.q.empty()) return {};
  return guarded("attention", [&]() -> Status {
    const std::string obstacle = obstacle_of(call);
    if (Status s = check_path("attention", call, obstacle); !s.ok()) return s;
    if (!obstacle.empty()) return reference_attention(call);
    return is_decode(call) ? decode_attention(call) : run_fused(call);
  });
}

}  // namespace

void add_content(const AttentionSetup& setup, std::int64_t head, float* row) {
  const double* content = setup.content_of(head);
  for (std::size_t c = 0; content != nullptr && c < setup.dim; ++c) {
    row[c] += static_cast<float>(content[c]);
  }
}

void read_queries(const AttentionSetup& setup, const Segment& s, std::int64_t head,
                  RowTurner& turner, const QueryRows& to, cpu::QueryBlock& block) {
  auto& [rows, plain, relative] = to;
  std::fill(rows.begin(), rows.end(), 0.0f);
  std::fill(plain.begin(), plain.end(), 0.0f);
  for (std::size_t r = 0; r < block.count; ++r) {
    const std::int64_t query = s.first_query + static_cast<std::int64_t>(block.first + r);
    float* row = rows.data() + r * setup.padded_dim;
    read_row(setup.call->q, s.batch, head, query, setup.padded_dim, row);
    if (!plain.empty()) std::copy_n(row, setup.padded_dim, plain.data() + r * setup.padded_dim);
    add_content(setup, head, row);
    turner.forward(Role::kQuery, head, setup.state->shape.heads, s.batch, query, row);
    const float scale = setup.scale_of(s.batch, head, query);
    for (std::size_t c = 0; c < setup.dim; ++c) row[c] *= scale;
  }
  setup.read_relative(s, head, block, relative);
  block.rows = rows.data();
  block.plain = plain.data();
  const RelativeQuery* config = setup.relative_query();
  if (config != nullptr) block.relative = (config->has_own_rows() ? relative : plain).data();
}

ForwardWorker::ForwardWorker(const AttentionSetup& setup)
    : space(setup.workspace(setup.call->k.tokens(), false)),
      turner(setup),
      rows(cpu::kQueryBlock * setup.padded_dim),
      plain(setup.reads_plain() ? rows.size() : 0),
      relative(cpu::kQueryBlock * setup.relative_form.channel_stride),
      out(cpu::kQueryBlock * setup.padded_value_dim),
      lse(cpu::kQueryBlock) {}

void read_queries(const AttentionSetup& setup, const Segment& s, std::int64_t head,
                  ForwardWorker& worker, cpu::QueryBlock& block) {
  read_queries(setup, s, head, worker.turner, {worker.rows, worker.plain, worker.relative}, block);
}

void write_outputs(const AttentionSetup& setup, const Segment& s, std::int64_t head,
                   const cpu::QueryBlock& block, ForwardWorker& worker) {
  const AttentionCall& call = *setup.call;
  for (std::size_t r = 0; r < block.count; ++r) {
    const std::int64_t query = s.first_query + static_cast<std::int64_t>(block.first + r);
    float* row = worker.out.data() + r * setup.padded_value_dim;
    setup.share_with_sinks(head, row, worker.lse[r]);
    if (setup.state->rotates_values) {
      worker.turner.turn_value(Role::kQuery, head, call.q.heads(), s.batch, query, row);
    }
    write_row(call.out, s.batch, head, query, row);
    if (call.lse.empty()) continue;
    const std::int64_t at = (s.batch * call.q.heads() + head) * call.q.tokens() + query;
    call.lse[at] = worker.lse[r];
  }
}

Status attention(const AttentionCall& call) noexcept {
  if (!call.block_table.given()) return run_forward(call);
  return guarded("attention", [&]() -> Status {
    if (Status s = check_block_table(call); !s.ok()) return s;
    return run_forward(PagedCall(call).call);
  });
}

}  // namespace posenc
