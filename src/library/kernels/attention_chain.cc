#include "kernels/attention_chain.h"

#include <algorithm>
#include <limits>

#include "core/thread_pool.h"
#include "kernels/cpu/chain_simd.h"
#include "kernels/paged_cache.h"

namespace posenc {
namespace {

using Kind = cpu::ChainProblem::Kind;

std::size_t tiles_of(const Segment& s) {
  return (static_cast<std::size_t>(s.keys) + cpu::kKeyBlock - 1) / cpu::kKeyBlock;
}

const ConstTensorView& chain_input(const AttentionCall& call, std::size_t index) {
  const AttentionPlan::State& state = call.plan->state();
  return call.inputs[first_input(state.inputs, *state.chain) + index];
}

bool is_hidden(const AttentionCall& call, std::int64_t batch, std::int64_t key) {
  return call.mask.key_mask != nullptr && call.mask.key_mask[batch * call.k.tokens() + key] == 0;
}

// The step of a token as the kernel reads it: nothing happens at hidden ones.
void read_step(const AttentionSetup& setup, std::int64_t batch, std::int64_t head, std::int64_t key,
               float* row, float& factor) {
  const AttentionCall& call = *setup.call;
  const bool householder = setup.chain.kind == Kind::kHouseholder;
  if (is_hidden(call, batch, key)) {
    std::fill_n(row, setup.padded_dim, 0.0f);
    factor = 0.0f;
    return;
  }
  const BlockTable& table = call.block_table;
  read_key_row(table, chain_input(call, 0), batch, head, key, setup.padded_dim, row);
  if (householder) read_key_row(table, chain_input(call, 1), batch, head, key, 1, &factor);
}

void pack_steps(AttentionSetup& setup) {
  const ConstTensorView& k = setup.call->k;
  const std::int64_t rows = k.batch() * k.heads() * k.tokens();
  AttentionSetup::Chain& chain = setup.chain;
  chain.steps.resize(static_cast<std::size_t>(rows) * setup.padded_dim);
  chain.factors.assign(static_cast<std::size_t>(rows), 0.0f);
  parallel_for(k.batch() * k.heads(), [&](std::int64_t matrix, int) {
    for (std::int64_t t = 0; t < key_count(*setup.call, matrix / k.heads()); ++t) {
      const auto at = static_cast<std::size_t>(matrix * k.tokens() + t);
      float* row = chain.steps.data() + at * setup.padded_dim;
      read_step(setup, matrix / k.heads(), matrix % k.heads(), t, row, chain.factors[at]);
      if (chain.kind == Kind::kGates) cpu::exp_row(row, setup.padded_dim);
    }
  });
}

// Tile `tile` of a sequence in a head.
cpu::ChainTile tile_of(const AttentionSetup& setup, const cpu::ChainProblem& problem,
                       const cpu::Rows& k, std::size_t keys, std::size_t tile) {
  const std::size_t first = tile * cpu::kKeyBlock;
  return {problem.kind,
          setup.dim,
          setup.padded_dim,
          std::min(cpu::kKeyBlock, keys - first),
          {k.data + first * k.stride, k.stride},
          {problem.steps.data + first * problem.steps.stride, problem.steps.stride},
          problem.factors + first};
}

}  // namespace

Status check_chain(const AttentionCall& call) {
  try {
    require_causal("attention", call.plan->state().spec, call.mask.causal);
  } catch (const std::exception& problem) {
    return {StatusCode::kInvalidArgument, problem.what()};
  }
  return {};
}

void fill_chain(AttentionSetup& setup) {
  if (setup.chain.kind == Kind::kNone) return;
  AttentionSetup::Chain& chain = setup.chain;
  pack_steps(setup);
  chain.keys.assign(chain.steps.size(), 0.0f);
  struct Task {
    const Segment* segment;
    std::int64_t head;
    std::size_t tile;
  };
  std::vector<Task> tasks;
  std::size_t matrices = 0;
  for (const Segment& s : setup.segments) {
    chain.first_matrix.push_back(matrices);
    matrices += tiles_of(s) * static_cast<std::size_t>(setup.state->kv_heads);
    for (std::int64_t h = 0; h < setup.state->kv_heads; ++h) {
      for (std::size_t t = 0; t < tiles_of(s); ++t) tasks.push_back({&s, h, t});
    }
  }
  const std::size_t size =
      cpu::ChainProblem{.kind = chain.kind}.tile_size(setup.dim, setup.padded_dim);
  chain.tiles.assign(matrices * size, 0.0f);
  parallel_for(std::ssize(tasks), [&](std::int64_t index, int) {
    const Task& task = tasks[index];
    const cpu::ChainProblem problem = setup.chain_of(*task.segment, task.head);
    const cpu::ChainTile tile = tile_of(setup, problem, setup.k_of(*task.segment, task.head),
                                        static_cast<std::size_t>(task.segment->keys), task.tile);
    const std::size_t key = static_cast<std::size_t>(problem.keys.data - chain.keys.data()) +
                            task.tile * cpu::kKeyBlock * setup.padded_dim;
    const std::size_t matrix =
        static_cast<std::size_t>(problem.tiles - chain.tiles.data()) + task.tile * size;
    cpu::chain_tile(tile, chain.keys.data() + key, chain.tiles.data() + matrix);
  });
}

cpu::ChainProblem AttentionSetup::chain_of(const Segment& s, std::int64_t kv_head) const {
  cpu::ChainProblem problem;
  problem.kind = chain.kind;
  if (chain.steps.empty()) return problem;
  const auto row = static_cast<std::size_t>(
      (s.batch * state->kv_heads + kv_head) * call->k.tokens() + s.first_key);
  problem.steps = {chain.steps.data() + row * padded_dim, padded_dim};
  problem.factors = chain.factors.data() + row;
  problem.keys = {chain.keys.data() + row * padded_dim, padded_dim};
  const std::size_t matrix =
      chain.first_matrix[&s - segments.data()] + static_cast<std::size_t>(kv_head) * tiles_of(s);
  problem.tiles = chain.tiles.data() + matrix * problem.tile_size(dim, padded_dim);
  return problem;
}

std::int64_t chain_bytes(const AttentionCall& call, std::int64_t row_bytes) {
  const AttentionPlan::State& state = call.plan->state();
  if (!state.chain) return 0;
  const bool householder = state.config<Path>(state.chain) != nullptr;
  std::int64_t tiles = 0;
  for (const Segment& s : segments_of(call)) tiles += static_cast<std::int64_t>(tiles_of(s));
  const std::int64_t rows = call.k.batch() * call.k.tokens() * 2;
  const std::int64_t factors = call.k.batch() * call.k.tokens() * std::int64_t{sizeof(float)};
  return state.kv_heads * (factors + row_bytes * (rows + tiles * (householder ? state.shape.head_dim
                                                                              : std::int64_t{1})));
}

std::int64_t chain_task_bytes(const AttentionCall& call, std::int64_t row_bytes) {
  const AttentionPlan::State& state = call.plan->state();
  return state.chain ? chain_bytes(call, row_bytes) / std::max<std::int64_t>(state.kv_heads, 1) : 0;
}

void chain_scores(const AttentionSetup& setup, const Segment& s, std::int64_t kv_head,
                  std::int64_t place, std::int64_t first, const ChainedRow& row, float* scores) {
  for (std::int64_t m = place; m >= first; --m) {
    float factor = 0.0f;
    read_key_row(setup.call->block_table, setup.call->k, s.batch, kv_head, s.first_key + m,
                 setup.padded_dim, row.key);
    read_step(setup, s.batch, kv_head, s.first_key + m, row.step, factor);
    scores[m] =
        cpu::meet_key(setup.chain.kind, row.key, row.step, factor, setup.padded_dim, row.query);
  }
}

AlignedFloats chain_scratch(const AttentionSetup& setup) {
  if (setup.chain.kind == Kind::kNone) return {};
  return AlignedFloats(cpu::chain_scratch_size(setup.dim, setup.padded_dim));
}

void write_chain_gradients(const AttentionBackwardCall& call, const AttentionSetup& setup,
                           AlignedFloats& scratch, TaskGradients& sum) {
  if (setup.chain.kind == Kind::kNone) return;
  const Segment& s = setup.segments[sum.segment_index];
  const cpu::ChainProblem problem = setup.chain_of(s, sum.kv_head);
  const std::size_t size = problem.tile_size(setup.dim, setup.padded_dim);
  for (std::size_t t = 0; t < tiles_of(s); ++t) {
    const std::size_t key = t * cpu::kKeyBlock;
    const std::size_t row = key * setup.padded_dim;
    const cpu::ChainTile tile =
        tile_of(setup, problem, setup.k_of(s, sum.kv_head), static_cast<std::size_t>(s.keys), t);
    cpu::chain_tile_backward(
        tile,
        {sum.dchain_keys.data() + row, sum.dchain_tiles.data() + t * size, sum.dk.data() + row,
         sum.dsteps.data() + row, sum.dfactors.data() + key},
        scratch.data());
  }
  const AttentionPlan::State& state = *setup.state;
  const std::size_t input = first_input(state.inputs, *state.chain);
  for (std::int64_t j = 0; j < s.keys; ++j) {
    const auto n = static_cast<std::size_t>(j);
    float* row = sum.dsteps.data() + n * setup.padded_dim;
    if (is_hidden(call.forward, s.batch, s.first_key + j)) {
      std::fill_n(row, setup.padded_dim, 0.0f);
      sum.dfactors[n] = 0.0f;
    }
    write_row(call.dinputs[input], s.batch, sum.kv_head, s.first_key + j, row);
    if (setup.chain.kind == Kind::kGates) continue;
    write_row(call.dinputs[input + 1], s.batch, sum.kv_head, s.first_key + j, &sum.dfactors[n]);
  }
}

}  // namespace posenc
