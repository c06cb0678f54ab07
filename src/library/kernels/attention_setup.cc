// What a call computes before its first tile: positions, tables, and keys and values as rows.
#include <algorithm>
#include <cmath>

#include "core/thread_pool.h"
#include "kernels/attention_plan.h"
#include "kernels/attention_reference.h"
#include "kernels/cpu/rows_simd.h"
#include "posenc/core/threads.h"

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
      const std::int64_t place = of_queries ? t + s.place_offset() : t;
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

// The key at every query's place.
void find_own_keys(AttentionSetup& setup) {
  const AttentionCall& call = *setup.call;
  setup.own_keys.assign(call.q.batch() * call.q.tokens(), -1);
  for (const Segment& s : setup.segments) {
    for (std::int64_t t = 0; t < s.queries; ++t) {
      const std::int64_t place = t + s.place_offset();
      if (place < 0) continue;
      setup.own_keys[s.batch * call.q.tokens() + s.first_query + t] = s.first_key + place;
    }
  }
}

// The angles of a key before a sum over steps: one per pair.
std::vector<double> angles_of(const Rope& rope, const std::vector<double>& frequencies,
                              const std::vector<double>& row) {
  std::vector<double> angles = row;
  if (rope.angles == Rope::Angles::kInput) return angles;
  angles.assign(frequencies.size(), 0.0);
  for (std::size_t p = 0; p < angles.size(); ++p) angles[p] = row[0] * frequencies[p];
  return angles;
}

// Cos and sin of the keys of a sequence in a head. Sums over steps are float64.
void fill_input_angles(const AttentionSetup& setup, const Segment& s, std::int64_t head,
                       std::size_t r, AttentionSetup::InputAngles& to) {
  const AttentionPlan::State& state = *setup.state;
  const AttentionCall& call = *setup.call;
  const Rope& rope = *rope_of_input(state, r);
  const Rotary& rotary = state.rotations[r];
  const ConstTensorView& input = call.inputs[first_input(state.inputs, state.rotary[r])];
  const std::vector<double>& frequencies = rotary.inv_freq[rotary.group_of(head, state.kv_heads)];
  const auto real = real_keys(call, s);
  std::vector<float> values(static_cast<std::size_t>(input.channels()));
  std::vector<double> row(values.size(), 0.0);
  for (std::int64_t t = 0; t < s.keys; ++t) {
    read_row(input, s.batch, head, s.first_key + t, values.size(), values.data());
    const bool hidden = rope.running && !real.empty() && real[t] == 0;
    for (std::size_t c = 0; c < row.size() && !hidden; ++c) {
      row[c] = static_cast<double>(values[c]) + (rope.running ? row[c] : 0.0);
    }
    const std::vector<double> angles = angles_of(rope, frequencies, row);
    const std::int64_t key = (s.batch * state.kv_heads + head) * call.k.tokens() + s.first_key + t;
    const std::size_t at = static_cast<std::size_t>(key) * angles.size();
    for (std::size_t p = 0; p < angles.size(); ++p) {
      const double angle = rotary.inverse ? -angles[p] : angles[p];
      to.cos[at + p] = static_cast<float>(rotary.attention_factor * std::cos(angle));
      to.sin[at + p] = static_cast<float>(rotary.attention_factor * std::sin(angle));
    }
  }
}

void find_input_angles(AttentionSetup& setup) {
  const AttentionPlan::State& state = *setup.state;
  const AttentionCall& call = *setup.call;
  setup.input_angles.resize(state.rotary.size());
  bool any = false;
  for (std::size_t r = 0; r < state.rotary.size(); ++r) {
    if (rope_of_input(state, r) == nullptr) continue;
    any = true;
    const Rotary& rotary = state.rotations[r];
    AttentionSetup::InputAngles& to = setup.input_angles[r];
    const auto pairs = static_cast<std::size_t>(rotary.pairs());
    to.still_cos.assign(pairs, static_cast<float>(rotary.attention_factor));
    to.still_sin.assign(pairs, 0.0f);
    to.cos.resize(static_cast<std::size_t>(call.k.batch() * state.kv_heads * call.k.tokens()) *
                  pairs);
    to.sin.resize(to.cos.size());
    const auto tasks = std::ssize(setup.segments) * state.kv_heads;
    parallel_for(tasks, [&](std::int64_t task, int) {
      fill_input_angles(setup, setup.segments[task / state.kv_heads], task % state.kv_heads, r, to);
    });
  }
  if (any) find_own_keys(setup);
}

void fill_query_factors(AttentionSetup& setup) {
  const AttentionPlan::State& state = *setup.state;
  if (state.temperatures.empty()) return;
  const AttentionCall& call = *setup.call;
  for (std::int64_t b = 0; b < call.q.batch(); ++b) {
    for (std::int64_t h = 0; h < state.shape.heads; ++h) {
      for (std::int64_t t = 0; t < call.q.tokens(); ++t) {
        const std::int64_t position = setup.q_ids[(b * call.q.tokens() + t) * setup.axes];
        setup.query_factors.push_back(
            static_cast<float>(query_factor(state, *call.parameters, h, position)));
      }
    }
  }
}

// Every distance n - m that a block may read: keys past the query, and queries past the last one
// (those lanes are read and not used).
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

// One number per key of a segment.
std::vector<double> token_values(const ConstTensorView& x, const Segment& s, std::int64_t head) {
  std::vector<double> values;
  for (std::int64_t t = 0; t < s.keys; ++t) {
    float value = 0.0f;
    read_row(x, s.batch, head, s.first_key + t, 1, &value);
    values.push_back(static_cast<double>(value));
  }
  return values;
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

// Tables of the distances that keys of the call are at.
void fill_relative(AttentionSetup& setup) {
  const RelativeQuery* config = setup.relative_query();
  if (config == nullptr) return;
  const std::vector<double>& values = (*setup.call->parameters)[*setup.state->relative_query][0];
  const std::size_t lanes = cpu::vector_lanes();
  const auto whole = [lanes](std::size_t n) { return (n + lanes - 1) / lanes * lanes; };
  cpu::RelativeProblem& form = setup.relative_form;
  form.channels = static_cast<std::size_t>(config->channels(static_cast<std::int64_t>(setup.dim)));
  form.channel_stride = config->reads_input() ? whole(form.channels) : setup.padded_dim;
  const std::int64_t farthest = std::max<std::int64_t>(setup.distances.places, 1) - 1;
  form.highest = std::min(config->extent - 1, farthest);
  form.lowest = std::max(config->lowest(), setup.call->mask.causal ? 0 : -farthest);
  form.clips = config->beyond == RelativeQuery::Beyond::kClip;
  form.stride = whole(form.entries());
  const std::size_t tables =
      config->per_head ? values.size() / form.channels / config->entries() : 1;
  setup.relative_tables.assign(tables * form.channels * form.stride, 0.0f);
  setup.relative_transposed.assign(tables * form.entries() * form.channel_stride, 0.0f);
  const double factor = config->factor(static_cast<double>(setup.scale));
  const auto first = static_cast<std::size_t>(form.lowest - config->lowest());
  for (std::size_t row = 0; row < tables * form.channels; ++row) {
    const std::size_t table = row / form.channels;
    const std::size_t channel = row % form.channels;
    for (std::size_t n = 0; n < form.entries(); ++n) {
      const auto entry = static_cast<float>(factor * values[row * config->entries() + first + n]);
      setup.relative_tables[row * form.stride + n] = entry;
      setup.relative_transposed[(table * form.entries() + n) * form.channel_stride + channel] =
          entry;
      form.finite = form.finite && std::isfinite(entry);
    }
  }
}

// Sums of the token term, each sequence and query head for itself.
void fill_token_sums(AttentionSetup& setup) {
  const AttentionPlan::State& state = *setup.state;
  if (!state.token) return;
  const AttentionCall& call = *setup.call;
  const std::size_t input = first_input(state.inputs, *state.token);
  const std::int64_t group = state.shape.heads / call.inputs[input].heads();
  const TokenForm form =
      *token_form(state.spec.encodings[*state.token], static_cast<double>(setup.scale));
  setup.token_query.resize(call.q.batch() * state.shape.heads * call.k.tokens());
  setup.token_key.resize(setup.token_query.size());
  for (const Segment& s : setup.segments) {
    for (std::int64_t h = 0; h < state.shape.heads; ++h) {
      const auto x = token_values(call.inputs[input], s, h / group);
      const TokenSums sums = token_sums(form, x, real_keys(call, s));
      const std::int64_t at = (s.batch * state.shape.heads + h) * call.k.tokens() + s.first_key;
      std::copy(sums.at_query.begin(), sums.at_query.end(), setup.token_query.begin() + at);
      std::copy(sums.at_key.begin(), sums.at_key.end(), setup.token_key.begin() + at);
    }
  }
}

// Whether tiles may be left out: the bound of fox.h speaks of sums that fall, and of scores without other terms.
bool may_prune(const AttentionSetup& setup) {
  const AttentionPlan::State& state = *setup.state;
  const auto* fox = state.token ? std::get_if<Fox>(&state.spec.encodings[*state.token]) : nullptr;
  const bool others = !state.biases.empty() || state.fire || state.cope || state.relative_query ||
                      state.softcap || state.breaks_sticks || setup.call->mask.key_mask != nullptr;
  if (fox == nullptr || !fox->prune || others) return false;
  const std::int64_t rows = setup.call->q.batch() * state.shape.heads;
  const std::int64_t keys = setup.call->k.tokens();
  for (const Segment& s : setup.segments) {
    for (std::int64_t row = 0; row < rows; ++row) {
      if (row / state.shape.heads != s.batch) continue;
      const auto first = setup.token_query.begin() + row * keys + s.first_key;
      if (!std::is_sorted(first, first + s.keys, std::greater<>())) return false;
    }
  }
  return true;
}

void find_largest_keys(AttentionSetup& setup) {
  if (!may_prune(setup)) return;
  for (const Segment& s : setup.segments) {
    for (std::int64_t h = 0; h < setup.state->kv_heads; ++h) {
      const cpu::Rows rows = setup.k_of(s, h);
      double largest = 0.0;
      for (std::int64_t t = 0; t < s.keys; ++t) {
        const float* row = rows.data + static_cast<std::size_t>(t) * rows.stride;
        double sum = 0.0;
        for (std::size_t c = 0; c < setup.dim; ++c) {
          sum += static_cast<double>(row[c]) * static_cast<double>(row[c]);
        }
        largest = sum <= largest ? largest : sum;  // a NaN stays
      }
      setup.largest_keys.push_back(static_cast<float>(std::sqrt(largest)));
    }
  }
}

// Whether the tensor's own rows can be read as they are: float32, whole vectors, never turned.
bool serves_as_rows(const ConstTensorView& x, std::size_t padded_dim) {
  return x.dtype == DType::kFloat32 && static_cast<std::size_t>(x.channels()) == padded_dim &&
         x.stride[2] >= 0;
}
std::size_t padded(std::int64_t dim) {
  const std::size_t lanes = cpu::vector_lanes();
  return (static_cast<std::size_t>(dim) + lanes - 1) / lanes * lanes;
}
// On a machine with vectors of 512 bits: what is said of a call must not depend on the machine.
std::size_t widest(std::int64_t dim) { return static_cast<std::size_t>((dim + 15) / 16 * 16); }
bool turns_keys(const AttentionCall& call) {
  return !call.plan->state().rotary.empty() && !call.keys_are_turned;
}

enum class Turn { kNot, kKeys, kValues };

void pack(AttentionSetup& setup, const ConstTensorView& x, Turn turned, AlignedFloats& rows) {
  if (turned == Turn::kNot && serves_as_rows(x, setup.padded_dim)) return;
  const std::int64_t heads = x.heads();
  const std::int64_t tokens = x.tokens();
  rows.assign(static_cast<std::size_t>(x.batch() * heads * tokens) * setup.padded_dim, 0.0f);
  constexpr std::int64_t kChunk = 256;
  const std::int64_t chunks = (tokens + kChunk - 1) / kChunk;
  std::vector<RowTurner> turners(num_threads(), RowTurner(setup));
  parallel_for(x.batch() * heads * chunks, [&](std::int64_t task, int worker) {
    const std::int64_t first = task % chunks * kChunk;
    const std::int64_t h = task / chunks % heads;
    const std::int64_t b = task / chunks / heads;
    for (std::int64_t t = first; t < std::min(first + kChunk, tokens); ++t) {
      float* row =
          rows.data() + static_cast<std::size_t>((b * heads + h) * tokens + t) * setup.padded_dim;
      read_row(x, b, h, t, setup.padded_dim, row);
      if (turned == Turn::kKeys) turners[worker].forward(Role::kKey, h, heads, b, t, row);
      if (turned == Turn::kValues) turners[worker].turn_value(Role::kKey, h, heads, b, t, row);
    }
  });
}

cpu::Rows rows_of(const AttentionSetup& setup, const ConstTensorView& x, const AlignedFloats& rows,
                  const Segment& s, std::int64_t head) {
  if (!rows.empty()) {
    const std::int64_t at = (s.batch * x.heads() + head) * x.tokens() + s.first_key;
    return {rows.data() + static_cast<std::size_t>(at) * setup.padded_dim, setup.padded_dim};
  }
  const auto* data =
      static_cast<const std::byte*>(x.data) + x.row_offset(s.batch, head, s.first_key);
  return {reinterpret_cast<const float*>(data), static_cast<std::size_t>(x.stride[2])};
}

}  // namespace

cpu::Rows AttentionSetup::k_of(const Segment& s, std::int64_t kv_head) const {
  return rows_of(*this, call->k, k_rows, s, kv_head);
}
cpu::Rows AttentionSetup::v_of(const Segment& s, std::int64_t kv_head) const {
  return rows_of(*this, call->v, v_rows, s, kv_head);
}
cpu::Rows AttentionSetup::gates_of(const Segment& s, std::int64_t kv_head) const {
  const Cope* config = cope();
  if (config == nullptr || !has_gate_vectors(*config)) return {};
  if (config->gate_source == Cope::GateSource::kValue) return v_of(s, kv_head);
  return rows_of(*this, gate_vectors(), gate_rows, s, kv_head);
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

Status prepare_attention(const AttentionCall& call, AttentionSetup& setup, bool pack_rows) {
  setup.call = &call;
  setup.state = &call.plan->state();
  setup.segments = segments_of(call);
  setup.dim = static_cast<std::size_t>(call.q.channels());
  setup.padded_dim = padded(call.q.channels());
  setup.scale = static_cast<float>(call.scale.value_or(default_scale(call.q.channels())));
  if (Status s = find_tables(setup); !s.ok()) return s;
  const DistanceRange range = distances_of(call, setup.segments);
  const AttentionPlan::State& state = *setup.state;
  setup.distances = range;
  if (!state.biases.empty()) {
    setup.toeplitz =
        state.toeplitz.get(state.spec, state.biases, state.shape.heads, *call.parameters, range);
  }
  if (state.fire) {
    const std::size_t index = *state.fire;
    setup.fire = FireTables(std::get<Fire>(state.spec.encodings[index]), (*call.parameters)[index],
                            state.shape.heads, range);
  }
  find_input_angles(setup);
  fill_query_factors(setup);
  fill_cope(setup);
  fill_relative(setup);
  fill_token_sums(setup);
  for (const std::size_t index : state.sinks) {
    const std::vector<double>& logits = (*call.parameters)[index][0];
    setup.sinks.emplace_back(logits.begin(), logits.end());
  }
  if (!pack_rows) return {};
  pack(setup, call.k, turns_keys(call) ? Turn::kKeys : Turn::kNot, setup.k_rows);
  pack(setup, call.v, state.rotates_values ? Turn::kValues : Turn::kNot, setup.v_rows);
  if (const Cope* cope = setup.cope();
      cope != nullptr && cope->gate_source == Cope::GateSource::kSeparate) {
    pack(setup, setup.gate_vectors(), Turn::kNot, setup.gate_rows);
  }
  find_largest_keys(setup);
  return {};
}

std::int64_t forward_bytes(const AttentionCall& call, bool decodes) {
  const AttentionPlan::State& state = call.plan->state();
  const std::size_t channels = widest(call.q.channels());
  const auto row_bytes = static_cast<std::int64_t>(channels * sizeof(float));
  const std::int64_t rows = call.k.batch() * call.k.heads() * call.k.tokens() * row_bytes;
  const auto packs = [&](const ConstTensorView& x, bool turned) {
    return !decodes && (turned || !serves_as_rows(x, channels));
  };
  std::int64_t bytes = 0;
  if (packs(call.k, turns_keys(call))) bytes += rows;
  if (packs(call.v, state.rotates_values)) bytes += rows;
  for (std::size_t r = 0; r < state.rotary.size(); ++r) {
    if (rope_of_input(state, r) != nullptr) {
      bytes += call.k.batch() * state.kv_heads * call.k.tokens() * state.rotations[r].rotary_dim *
               static_cast<std::int64_t>(sizeof(float));
    }
  }
  if (state.cope) {
    const auto& cope = std::get<Cope>(state.spec.encodings[*state.cope]);
    if (cope.gate_source == Cope::GateSource::kSeparate && packs(call.k, false)) bytes += rows;
  }
  if (!state.biases.empty()) {
    bytes += state.shape.heads * distances_of(call, segments_of(call)).span() *
             static_cast<std::int64_t>(sizeof(float));
  }
  if (state.token) {
    bytes += 2 * call.q.batch() * state.shape.heads * call.k.tokens() *
             static_cast<std::int64_t>(sizeof(double));
  }
  return bytes;
}

std::int64_t backward_bytes(const AttentionCall& call) {
  const AttentionPlan::State& state = call.plan->state();
  const std::vector<Segment> segments = segments_of(call);
  const std::int64_t group = state.shape.heads / state.kv_heads;
  const auto row_bytes = static_cast<std::int64_t>(widest(call.q.channels()) * sizeof(float));
  const bool gates =
      state.cope && has_gate_vectors(std::get<Cope>(state.spec.encodings[*state.cope]));
  std::int64_t per_head = 0;  // what a task keeps for the keys of its head
  for (const Segment& s : segments) {
    per_head += s.keys * row_bytes * (gates ? 3 : 2);
    if (state.token) per_head += group * s.keys * static_cast<std::int64_t>(sizeof(double));
    if (!state.biases.empty()) {
      per_head +=
          group * distances_of(call, segments).span() * static_cast<std::int64_t>(sizeof(float));
    }
  }
  return forward_bytes(call, false) +
         per_head * state.kv_heads * backward_splits(call, segments.size());
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
