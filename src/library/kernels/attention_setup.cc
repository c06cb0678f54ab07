// What a call computes before its first tile: positions, tables, and keys and values as rows.
#include <algorithm>
#include <cmath>

#include "core/thread_pool.h"
#include "kernels/attention_chain.h"
#include "kernels/attention_inputs.h"
#include "kernels/attention_reference.h"
#include "kernels/cpu/rows_simd.h"
#include "kernels/paged_cache.h"
#include "kernels/pair_terms.h"
#include "posenc/core/threads.h"
#include "posenc/kernels/attention_slices.h"

namespace posenc {
namespace {

// Every coordinate of every token; places where the caller gave no positions.
std::vector<std::int64_t> all_positions(const AttentionSetup& setup, bool of_queries) {
  const AttentionCall& call = *setup.call;
  const std::int64_t axes = setup.axes;
  const PositionsView& given = of_queries ? call.q_positions : call.k_positions;
  const std::int64_t tokens = of_queries ? call.q.tokens() : call.k.tokens();
  std::vector<std::int64_t> ids(call.q.batch() * tokens * axes);
  const auto slot = [&](std::int64_t b, std::int64_t t, std::int64_t a) -> std::int64_t& {
    return ids[(b * tokens + t) * axes + a];
  };
  for (const Segment& s : setup.segments) {
    const std::int64_t first = of_queries ? s.first_query : s.first_key;
    const std::int64_t count = of_queries ? s.queries : s.keys;
    for (std::int64_t t = 0; t < count; ++t) {
      const std::int64_t place = s.key_place + (of_queries ? t + s.place_offset() : t);
      for (std::int64_t a = 0; a < axes; ++a) {
        slot(s.batch, first + t, a) = given.given() ? given.at(s.batch, first + t, a) : place;
      }
    }
  }
  return ids;
}

Status find_tables(AttentionSetup& setup) {
  const AttentionPlan::State& state = *setup.state;
  for (std::size_t r = 0; r < state.rotary.size(); ++r) {
    setup.tables.push_back(
        rotary_tables(*setup.call->plan, r, setup.call->parameters, setup.own_tables));
    setup.axes = std::max(setup.axes, setup.tables.back()->rotary().axes.axes);
    setup.scale *= static_cast<float>(setup.tables.back()->rotary().softmax_factor);
  }
  if (setup.tables.empty() && state.temperatures.empty()) return {};
  setup.q_ids = all_positions(setup, true);
  setup.k_ids = all_positions(setup, false);
  // Look every row up once, so that a position past a table is found before anything is written.
  for (const RotaryCache* tables : setup.tables) {
    if (tables->policy().mode == CachePolicy::Mode::kOnDemand) continue;
    RotaryCache::Row row{};
    for (const std::int64_t n : setup.q_ids) {
      if (Status s = tables->find_row(Role::kQuery, n, &row); !s.ok()) return s;
    }
    for (const std::int64_t n : setup.k_ids) {
      if (Status s = tables->find_row(Role::kKey, n, &row); !s.ok()) return s;
    }
  }
  return {};
}

}  // namespace

DistanceRange distances_of(const AttentionCall& call, const std::vector<Segment>& segments) {
  DistanceRange range;
  for (const Segment& s : segments) {
    range.before = std::max(range.before, s.keys + s.queries);
    range.places = std::max(range.places, std::max(s.keys, s.queries));
    range.lowest_place = std::min(range.lowest_place, s.place_offset());
  }
  const AttentionMask& mask = call.mask;
  range.lowest_seen = -range.before;
  if (mask.window_right >= 0) range.lowest_seen = std::max(range.lowest_seen, -mask.window_right);
  if (mask.causal) range.lowest_seen = 0;
  range.slack = static_cast<std::int64_t>(cpu::kQueryBlock);
  return range;
}

namespace {

// Likewise of a slice: as many as it has, wherever it is.
DistanceRange slice_distances(const AttentionSlice& slice, const AttentionCall& call,
                              const DistanceRange& whole) {
  DistanceRange range = whole;
  const std::int64_t offset = slice.first_query - slice.first_key;
  range.before = call.k.tokens() - offset;
  range.places = offset + call.q.tokens();
  range.lowest_place = slice.first_query;
  range.end_place = slice.first_query + call.q.tokens();
  range.key_place = slice.first_key;
  range.lowest_seen = -range.before;
  const AttentionMask& mask = call.mask;
  if (mask.window_right >= 0) range.lowest_seen = std::max(range.lowest_seen, -mask.window_right);
  if (mask.causal) range.lowest_seen = std::max<std::int64_t>(range.lowest_seen, 0);
  return range;
}

void place_slice(const AttentionSlice& slice, std::vector<Segment>& segments) {
  for (Segment& s : segments) {
    s.key_place = slice.first_key;
    s.shift = slice.first_query - slice.first_key - s.place_offset();
  }
}

void fill_cope(AttentionSetup& setup) {
  const Cope* cope = setup.cope();
  if (cope == nullptr) return;
  const std::vector<double>& values = (*setup.call->parameters)[*setup.state->cope][0];
  const std::size_t lanes = cpu::vector_lanes();
  setup.cope_npos = static_cast<std::size_t>(cope->npos_max);
  setup.cope_stride = (setup.cope_npos + 1 + lanes - 1) / lanes * lanes;
  const double scale = logit_factor(*cope, static_cast<std::int64_t>(setup.dim));
  const bool interpolates = cope->variant == Cope::Variant::kInterpolate;
  const std::size_t rows = interpolates ? setup.dim : values.size();
  setup.cope_table.assign(rows * setup.cope_stride, 0.0f);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t n = 0; n < setup.cope_npos; ++n) {
      const double entry =
          interpolates ? values[r * setup.cope_npos + n] : values[r] * static_cast<double>(n);
      setup.cope_table[r * setup.cope_stride + n] = static_cast<float>(scale * entry);
    }
  }
}

}  // namespace

bool serves_as_rows(const AttentionCall& call, const ConstTensorView& x, std::size_t padded_dim) {
  return !call.block_table.given() && x.dtype == DType::kFloat32 &&
         static_cast<std::size_t>(x.channels()) == padded_dim && x.stride[2] >= 0;
}

bool turns_keys(const AttentionCall& call) {
  return !call.plan->state().rotary.empty() && !call.keys_are_turned;
}

namespace {

std::size_t padded(std::int64_t dim) {
  const std::size_t lanes = cpu::vector_lanes();
  return (static_cast<std::size_t>(dim) + lanes - 1) / lanes * lanes;
}

enum class Turn { kNot, kKeys, kValues };

void pack(AttentionSetup& setup, const ConstTensorView& x, Turn turned, AlignedFloats& rows) {
  const std::size_t width = padded(x.channels());
  if (turned == Turn::kNot && serves_as_rows(*setup.call, x, width)) return;
  const std::int64_t heads = x.heads();
  const std::int64_t tokens = x.tokens();
  rows.assign(static_cast<std::size_t>(x.batch() * heads * tokens) * width, 0.0f);
  constexpr std::int64_t kChunk = 256;
  const std::int64_t chunks = (tokens + kChunk - 1) / kChunk;
  std::vector<RowTurner> turners(num_threads(), RowTurner(setup));
  parallel_for(x.batch() * heads * chunks, [&](std::int64_t task, int worker) {
    const std::int64_t first = task % chunks * kChunk;
    const std::int64_t h = task / chunks % heads;
    const std::int64_t b = task / chunks / heads;
    const std::int64_t end = std::min(first + kChunk, key_count(*setup.call, b));
    for (std::int64_t t = first; t < end; ++t) {
      float* row = rows.data() + static_cast<std::size_t>((b * heads + h) * tokens + t) * width;
      read_key_row(setup.call->block_table, x, b, h, t, width, row);
      if (turned == Turn::kKeys) turners[worker].forward(Role::kKey, h, heads, b, t, row);
      if (turned == Turn::kValues) turners[worker].turn_value(Role::kKey, h, heads, b, t, row);
    }
  });
}

cpu::Rows rows_of(const ConstTensorView& x, const AlignedFloats& rows, const Segment& s,
                  std::int64_t head) {
  if (!rows.empty()) {
    const std::int64_t at = (s.batch * x.heads() + head) * x.tokens() + s.first_key;
    const std::size_t width = padded(x.channels());
    return {rows.data() + static_cast<std::size_t>(at) * width, width};
  }
  const auto* data =
      static_cast<const std::byte*>(x.data) + x.row_offset(s.batch, head, s.first_key);
  return {reinterpret_cast<const float*>(data), static_cast<std::size_t>(x.stride[2])};
}

}  // namespace

cpu::Rows AttentionSetup::k_of(const Segment& s, std::int64_t kv_head) const {
  return rows_of(call->k, k_rows, s, kv_head);
}
cpu::Rows AttentionSetup::v_of(const Segment& s, std::int64_t kv_head) const {
  return rows_of(call->v, v_rows, s, kv_head);
}
cpu::Rows AttentionSetup::gates_of(const Segment& s, std::int64_t kv_head) const {
  const Cope* config = cope();
  if (config == nullptr || !has_gate_vectors(*config)) return {};
  if (config->gate_source == Cope::GateSource::kValue) return v_of(s, kv_head);
  return rows_of(gate_vectors(), gate_rows, s, kv_head);
}
const ConstTensorView& AttentionSetup::gate_vectors() const {
  if (cope()->gate_source == Cope::GateSource::kValue) return call->v;
  return call->inputs[first_input(state->inputs, *state->cope)];
}

std::span<const std::uint8_t> real_keys(const AttentionCall& call, const Segment& segment) {
  if (call.mask.key_mask == nullptr) return {};
  return {call.mask.key_mask + segment.batch * call.k.tokens() + segment.first_key,
          static_cast<std::size_t>(segment.keys)};
}

const TensorView* gate_gradient(const AttentionBackwardCall& call) {
  const AttentionPlan::State& state = call.forward.plan->state();
  if (!state.cope) return nullptr;
  const std::size_t input = first_input(state.inputs, *state.cope);
  return input < call.dinputs.size() ? &call.dinputs[input] : nullptr;
}

Status prepare_attention(const AttentionCall& call, AttentionSetup& setup, bool pack_rows,
                         const AttentionSlice* slice) {
  setup.call = &call;
  setup.state = &call.plan->state();
  setup.slice = slice;
  setup.segments = segments_of(call);
  if (slice != nullptr) place_slice(*slice, setup.segments);
  setup.dim = static_cast<std::size_t>(call.q.channels());
  setup.padded_dim = padded(call.q.channels());
  setup.value_dim = static_cast<std::size_t>(call.v.channels());
  setup.padded_value_dim = padded(call.v.channels());
  setup.scale = static_cast<float>(call.scale.value_or(default_scale(call.q.channels())));
  if (Status s = find_tables(setup); !s.ok()) return s;
  DistanceRange range = distances_of(call, setup.segments);
  if (slice != nullptr) range = slice_distances(*slice, call, range);
  const AttentionPlan::State& state = *setup.state;
  setup.distances = range;
  if (!state.biases.empty()) {
    setup.toeplitz = slice != nullptr
                         ? std::make_shared<const ToeplitzTables>(
                               state.spec, state.biases, state.shape.heads, *call.parameters, range)
                         : state.toeplitz.get(state.spec, state.biases, state.shape.heads,
                                              *call.parameters, range);
  }
  if (state.fire) {
    const std::size_t index = *state.fire;
    setup.fire =
        FireTables(*state.config<Fire>(index), (*call.parameters)[index], state.shape.heads, range);
  }
  fill_cope(setup);
  fill_from_inputs(setup);
  if (state.chain) {
    const bool householder = state.config<Path>(state.chain) != nullptr;
    setup.chain.kind =
        householder ? cpu::ChainProblem::Kind::kHouseholder : cpu::ChainProblem::Kind::kGates;
  }
  for (const std::size_t index : state.sinks) {
    const std::vector<double>& logits = (*call.parameters)[index][0];
    setup.sinks.emplace_back(logits.begin(), logits.end());
  }
  setup.pairs = make_pair_terms(setup);
  if (!pack_rows) return {};
  pack(setup, call.k, turns_keys(call) ? Turn::kKeys : Turn::kNot, setup.k_rows);
  pack(setup, call.v, state.rotates_values ? Turn::kValues : Turn::kNot, setup.v_rows);
  if (const Cope* cope = setup.cope();
      cope != nullptr && cope->gate_source == Cope::GateSource::kSeparate) {
    pack(setup, setup.gate_vectors(), Turn::kNot, setup.gate_rows);
  }
  find_largest_keys(setup);
  fill_chain(setup);
  return {};
}

void read_row(const ConstTensorView& view, std::int64_t b, std::int64_t h, std::int64_t t,
              std::size_t padded_dim, float* out) {
  const auto size = static_cast<std::size_t>(view.channels());
  cpu::row_to_float(view.dtype, static_cast<const std::byte*>(view.data) + view.row_offset(b, h, t),
                    size, out);
  std::fill(out + size, out + padded_dim, 0.0f);
}

void write_row(const TensorView& view, std::int64_t b, std::int64_t h, std::int64_t t,
               const float* row) {
  cpu::row_from_float(view.dtype, row, static_cast<std::size_t>(view.channels()),
                      static_cast<std::byte*>(view.data) + view.row_offset(b, h, t));
}

}  // namespace posenc
