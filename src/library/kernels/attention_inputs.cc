#include "kernels/attention_inputs.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/thread_pool.h"
#include "kernels/input_angles.h"
#include "kernels/paged_cache.h"
#include "posenc/kernels/attention_slices.h"

namespace posenc {
namespace {

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

// Whether cos and sin of every key are read, or those of the queries' own places alone.
bool reads_all_angles(const AttentionSetup& setup) {
  return turns_keys(*setup.call) || setup.state->rotates_values;
}

// The first place of a sequence that a query has.
std::int64_t first_own_place(const Segment& s) {
  return std::clamp<std::int64_t>(s.place_offset(), 0, s.keys);
}

// The first key of the call that a query's place may be at.
std::int64_t first_own_key(const AttentionSetup& setup) {
  std::int64_t first = setup.call->k.tokens();
  for (const Segment& s : setup.segments) {
    first = std::min(first, s.first_key + first_own_place(s));
  }
  return first;
}

// Cos and sin of the keys of a sequence in a head.
void fill_input_angles(const AttentionSetup& setup, const Segment& s, std::int64_t head,
                       std::size_t r, AttentionSetup::InputAngles& to) {
  const AttentionPlan::State& state = *setup.state;
  const Rope& rope = *rope_of_input(state, r);
  const auto pairs = static_cast<std::size_t>(state.rotations[r].pairs());
  InputAngleRows rows(state, r, setup.call->inputs, s.batch, head, setup.call->block_table);
  const auto real = real_keys(*setup.call, s);
  const std::int64_t first = reads_all_angles(setup) ? 0 : first_own_place(s);
  for (std::int64_t t = rope.running ? 0 : first; t < s.keys; ++t) {
    rows.read(s.first_key + t, !real.empty() && real[t] == 0);
    if (t < first) continue;
    const std::int64_t key =
        (s.batch * state.kv_heads + head) * to.keys + s.first_key + t - to.first;
    const std::size_t at = static_cast<std::size_t>(key) * pairs;
    rows.write(to.cos.data() + at, to.sin.data() + at);
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
    to.first = reads_all_angles(setup) ? 0 : first_own_key(setup);
    to.keys = call.k.tokens() - to.first;
    to.cos.resize(static_cast<std::size_t>(call.k.batch() * state.kv_heads * to.keys) * pairs);
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
  setup.query_factors.reserve(
      static_cast<std::size_t>(call.q.batch() * state.shape.heads * call.q.tokens()));
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

// One number per key of a segment.
std::vector<double> token_values(const BlockTable& table, const ConstTensorView& x,
                                 const Segment& s, std::int64_t head) {
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(s.keys));
  for (std::int64_t t = 0; t < s.keys; ++t) {
    float value = 0.0f;
    read_key_row(table, x, s.batch, head, s.first_key + t, 1, &value);
    values.push_back(static_cast<double>(value));
  }
  return values;
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
  const std::int64_t before = setup.slice != nullptr ? setup.distances.before : 0;
  const std::int64_t farthest = std::max<std::int64_t>({setup.distances.places, before, 1}) - 1;
  form.highest = std::min(config->reach(), farthest);
  form.lowest = -std::min(config->bidirectional ? config->reach() : 0, farthest);
  if (setup.call->mask.causal) form.lowest = 0;
  form.clips = config->beyond == RelativeQuery::Beyond::kClip;
  form.stride = whole(form.entries());
  const std::size_t tables =
      config->per_head ? values.size() / form.channels / config->entries() : 1;
  setup.relative_tables.assign(tables * form.channels * form.stride, 0.0f);
  setup.relative_transposed.assign(tables * form.entries() * form.channel_stride, 0.0f);
  const double factor = config->factor(static_cast<double>(setup.scale));
  for (std::size_t row = 0; row < tables * form.channels; ++row) {
    const std::size_t table = row / form.channels;
    const std::size_t channel = row % form.channels;
    for (std::size_t n = 0; n < form.entries(); ++n) {
      const std::int64_t at = config->entry(form.lowest + static_cast<std::int64_t>(n));
      const auto entry = static_cast<float>(factor * values[row * config->entries() + at]);
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
  if (const AttentionSlice* slice = setup.slice) {
    setup.token_query.assign(slice->query_sums.begin(), slice->query_sums.end());
    setup.token_key.assign(slice->key_sums.begin(), slice->key_sums.end());
    return;
  }
  const std::size_t input = first_input(state.inputs, *state.token);
  const std::int64_t group = state.shape.heads / call.inputs[input].heads();
  const TokenForm form =
      *token_form(state.spec.encodings[*state.token], static_cast<double>(setup.scale));
  setup.token_query.resize(call.q.batch() * state.shape.heads * call.k.tokens());
  setup.token_key.resize(setup.token_query.size());
  for (const Segment& s : setup.segments) {
    for (std::int64_t h = 0; h < state.shape.heads; ++h) {
      const auto x = token_values(call.block_table, call.inputs[input], s, h / group);
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
  const auto* fox = state.config<Fox>(state.token);
  const bool others = !state.biases.empty() || state.fire || state.cope || state.relative_query ||
                      !state.pairs.empty() || state.chain || state.softcap || state.breaks_sticks ||
                      setup.call->mask.key_mask != nullptr;
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

}  // namespace

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

void fill_from_inputs(AttentionSetup& setup) {
  find_input_angles(setup);
  fill_query_factors(setup);
  fill_relative(setup);
  fill_token_sums(setup);
}

}  // namespace posenc
