// The memory that a call allocates, from the shapes alone: an upper bound of what grows with the lengths. Every buffer of
// the setup, of a decode step, of a thread and of a task of the backward has a line here; CapabilityTest measures the sum.
#include <algorithm>

#include "kernels/attention_chain.h"
#include "kernels/attention_reference.h"
#include "kernels/pair_terms.h"
#include "posenc/core/threads.h"

namespace posenc {
namespace {

constexpr std::int64_t kFloat = sizeof(float);
constexpr std::int64_t kDouble = sizeof(double);

// Of vectors of 512 bits: what is said of a call must not depend on the machine.
std::int64_t widest(std::int64_t dim) { return (dim + 15) / 16 * 16; }

std::int64_t row_bytes(const AttentionCall& call) { return widest(call.q.channels()) * kFloat; }
std::int64_t value_row_bytes(const AttentionCall& call) {
  return widest(call.v.channels()) * kFloat;
}

// Rows of all keys, in the heads of q or of k.
std::int64_t query_head_keys(const AttentionCall& call) {
  return call.k.batch() * call.plan->state().shape.heads * call.k.tokens();
}
std::int64_t key_head_keys(const AttentionCall& call) {
  return call.k.batch() * call.plan->state().kv_heads * call.k.tokens();
}

std::int64_t span_of(const AttentionCall& call) {
  return distances_of(call, segments_of(call)).span();
}

// Keys, values and vectors of gates as float32 rows, where the tensors themselves do not serve.
std::int64_t packed_bytes(const AttentionCall& call) {
  const AttentionPlan::State& state = call.plan->state();
  const std::int64_t rows = key_head_keys(call) * row_bytes(call);
  const auto packs = [&](const ConstTensorView& x) {
    return !serves_as_rows(call, x, static_cast<std::size_t>(widest(x.channels())));
  };
  std::int64_t bytes = 0;
  if (turns_keys(call) || packs(call.k)) bytes += rows;
  if (state.rotates_values || packs(call.v)) bytes += key_head_keys(call) * value_row_bytes(call);
  if (state.cope) {
    const auto& cope = *state.config<Cope>(state.cope);
    const bool given = call.inputs.size() == state.inputs.size();
    if (cope.gate_source == Cope::GateSource::kSeparate &&
        packs(given ? call.inputs[first_input(state.inputs, *state.cope)] : call.k)) {
      bytes += rows;
    }
  }
  return bytes;
}

// Positions, and what the inputs of rotations and temperatures become.
std::int64_t position_bytes(const AttentionCall& call) {
  const AttentionPlan::State& state = call.plan->state();
  std::int64_t bytes = 0;
  if (!state.rotary.empty() || !state.temperatures.empty()) {
    bytes += call.q.batch() * (call.q.tokens() + call.k.tokens()) * state.axes *
             static_cast<std::int64_t>(sizeof(std::int64_t));
  }
  bool of_input = false;
  for (std::size_t r = 0; r < state.rotary.size(); ++r) {
    if (rope_of_input(state, r) == nullptr) continue;
    of_input = true;
    bytes += key_head_keys(call) * 2 * state.rotations[r].pairs() * kFloat;
  }
  if (of_input) {
    bytes += call.q.batch() * call.q.tokens() * static_cast<std::int64_t>(sizeof(std::int64_t));
  }
  if (!state.temperatures.empty()) {
    bytes += call.q.batch() * call.q.heads() * call.q.tokens() * kFloat;
  }
  return bytes;
}

// Tables by distance, sums over tokens.
std::int64_t table_bytes(const AttentionCall& call) {
  const AttentionPlan::State& state = call.plan->state();
  std::int64_t bytes = 0;
  if (!state.biases.empty()) bytes += state.shape.heads * span_of(call) * kFloat;
  if (state.fire) bytes += 3 * span_of(call) * kFloat;
  // Those of queries and of keys; three rows of numbers while they are made.
  if (state.token) bytes += (2 * query_head_keys(call) + 3 * call.k.tokens()) * kDouble;
  return bytes;
}

// Columns of a table of products with keys: the distances that it distinguishes, and those that a block reads past them.
std::int64_t key_columns(const AttentionCall& call, const RelativeQuery& relative) {
  const KeyDistances seen(relative, distances_of(call, segments_of(call)));
  return widest(seen.columns());
}

// What the terms of pairs keep for a call.
struct PairBytes {
  const AttentionCall& call;
  bool decodes;

  std::int64_t operator()(const RelativeQuery& relative) const {
    if (decodes) return 0;
    const std::int64_t tables = relative.per_head ? call.plan->state().shape.heads : 1;
    const std::int64_t ends = relative.beyond == RelativeQuery::Beyond::kClip ? 2 : 0;
    const std::int64_t columns = key_columns(call, relative);
    return key_head_keys(call) * (row_bytes(call) + ends * tables * kFloat) +
           tables * columns * (call.k.channels() * kFloat + row_bytes(call));
  }
  std::int64_t operator()(const Relative2d& /*plane*/) const {
    return call.q.batch() * (call.q.tokens() + call.k.tokens()) *
           static_cast<std::int64_t>(sizeof(Relative2d::Point));
  }
  std::int64_t operator()(const GrapeAp& grape) const {
    return (grape.separate ? 2 : 1) * query_head_keys(call) * (widest(grape.rank) + 1) * kFloat;
  }
  template <TokenTerm E>
  std::int64_t operator()(const E& /*token*/) const {
    return (2 * query_head_keys(call) + 4 * call.k.tokens()) * kDouble;
  }
};

std::int64_t setup_bytes(const AttentionCall& call, bool decodes) {
  const AttentionPlan::State& state = call.plan->state();
  std::int64_t bytes = position_bytes(call) + table_bytes(call);
  for (const std::size_t index : state.pairs) {
    bytes += visit_pair(state, index, PairBytes{call, decodes});
  }
  return decodes ? bytes : bytes + packed_bytes(call) + chain_bytes(call, row_bytes(call));
}

// Whether a term sums one number per token.
bool has_token_sums(const AttentionPlan::State& state) {
  const auto& pairs = state.pairs;
  return state.token || std::any_of(pairs.begin(), pairs.end(), [&](std::size_t index) {
           return token_form(state.spec.encodings[index], 1.0).has_value();
         });
}

// What every thread has for the keys of a block of queries.
std::int64_t thread_bytes(const AttentionCall& call, bool backward) {
  const AttentionPlan::State& state = call.plan->state();
  constexpr auto kLanes = static_cast<std::int64_t>(cpu::kQueryBlock);
  constexpr auto kTile = static_cast<std::int64_t>(cpu::kKeyBlock);
  const std::int64_t tiles = (call.k.tokens() + kTile - 1) / kTile;
  std::int64_t bytes = 0;
  if (!state.pairs.empty()) {
    bytes += (call.k.tokens() + kTile) * kLanes * kFloat * (backward ? 2 : 1);
  }
  if (backward && (state.cope || state.breaks_sticks)) {
    bytes += (tiles + 1) * static_cast<std::int64_t>(cpu::kCarry) * kFloat;
  }
  if (backward && state.chain) bytes += tiles * kLanes * row_bytes(call);
  if (backward && has_token_sums(state)) bytes += call.k.tokens() * kDouble;
  return bytes * num_threads();
}

// Of the forward: the list of its blocks.
std::int64_t task_list_bytes(const AttentionCall& call) {
  constexpr std::int64_t kTask = 24;
  constexpr auto kBlock = static_cast<std::int64_t>(cpu::kQueryBlock);
  std::int64_t blocks = 0;
  for (const Segment& s : segments_of(call)) blocks += (s.queries + kBlock - 1) / kBlock;
  return blocks * call.q.heads() * kTask;
}

// Gradients of one encoding that a task of the backward keeps, for `keys` keys of a key head.
struct PairGradientBytes {
  const AttentionCall& call;
  std::int64_t group;  // heads of a key head
  std::int64_t keys;

  std::int64_t operator()(const RelativeQuery& relative) const {
    const std::int64_t tables = relative.per_head ? group : 1;
    return (tables * key_columns(call, relative) + keys) * row_bytes(call);
  }
  std::int64_t operator()(const Relative2d& /*plane*/) const { return 0; }
  std::int64_t operator()(const GrapeAp& grape) const {
    return (grape.separate ? 2 : 1) * group * keys * widest(grape.rank) * kFloat;
  }
  template <TokenTerm E>
  std::int64_t operator()(const E& /*token*/) const {
    return group * keys * kDouble;
  }
};

// What a task of the backward keeps for the keys of a head of a sequence.
std::int64_t task_bytes(const AttentionCall& call, const Segment& s) {
  const AttentionPlan::State& state = call.plan->state();
  const std::int64_t group = state.shape.heads / state.kv_heads;
  const bool gates = state.cope && has_gate_vectors(*state.config<Cope>(state.cope));
  std::int64_t bytes = s.keys * (row_bytes(call) * (gates ? 2 : 1) + value_row_bytes(call));
  if (state.token) bytes += group * s.keys * kDouble;
  if (!state.biases.empty()) bytes += group * span_of(call) * kFloat;
  for (std::size_t r = 0; r < state.rotary.size(); ++r) {
    if (rope_of_input(state, r) != nullptr) {
      bytes += s.keys * state.rotations[r].pairs() * kDouble;
    }
  }
  for (const std::size_t index : state.pairs) {
    bytes += visit_pair(state, index, PairGradientBytes{call, group, s.keys});
  }
  return bytes;
}

// Of a decode step: a row of scores per query, the same of gates, and partial sums per chunk of keys.
std::int64_t decode_row_bytes(const AttentionCall& call) {
  constexpr std::int64_t kRows = 3;  // of channels: queries, plain queries, those of a table
  const std::int64_t rows = call.q.batch() * call.q.heads() * call.q.tokens();
  const std::int64_t chunks = (call.k.tokens() + kDecodeChunk - 1) / kDecodeChunk;
  const std::int64_t per_key = call.plan->state().cope ? 2 : 1;
  return rows * (call.k.tokens() * per_key * kFloat + kRows * row_bytes(call) +
                 (chunks + 1) * value_row_bytes(call));
}

}  // namespace

std::int64_t forward_bytes(const AttentionCall& call, bool decodes) {
  if (decodes) return setup_bytes(call, true) + decode_row_bytes(call);
  return setup_bytes(call, false) + thread_bytes(call, false) + task_list_bytes(call);
}

std::int64_t backward_bytes(const AttentionCall& call) {
  const std::vector<Segment> segments = segments_of(call);
  std::int64_t tasks = chain_task_bytes(call, row_bytes(call));
  for (const Segment& s : segments) tasks += task_bytes(call, s);
  // A table of gradients in float64 while they are summed.
  const std::int64_t sums = call.plan->state().biases.empty() ? 0 : span_of(call) * kDouble;
  return setup_bytes(call, false) + thread_bytes(call, true) + sums +
         tasks * call.plan->state().kv_heads * backward_splits(call, segments.size());
}

}  // namespace posenc
