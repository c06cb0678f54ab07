#include "kernels/attention_gradients.h"

#include <algorithm>
#include <cmath>

#include "core/thread_pool.h"
#include "kernels/attention_chain.h"
#include "posenc/core/threads.h"
#include "posenc/kernels/attention_slices.h"

namespace posenc {
namespace {

void add(const AlignedFloats& from, AlignedFloats& to) {
  for (std::size_t i = 0; i < from.size(); ++i) to[i] += from[i];
}

}  // namespace

TaskGradients::TaskGradients(const AttentionSetup& setup, const Segment& in_segment,
                             std::int64_t of_kv_head)
    : kv_head(of_kv_head),
      segment(in_segment),
      segment_index(static_cast<std::size_t>(&in_segment - setup.segments.data())) {
  const AttentionPlan::State& state = *setup.state;
  const auto group = static_cast<std::size_t>(state.shape.heads / state.kv_heads);
  const std::size_t rows = static_cast<std::size_t>(segment.keys) * setup.padded_dim;
  dk.assign(rows, 0.0f);
  dv.assign(static_cast<std::size_t>(segment.keys) * setup.padded_value_dim, 0.0f);
  if (state.chain) {
    dchain_keys.assign(rows, 0.0f);
    dsteps.assign(rows, 0.0f);
    dfactors.assign(static_cast<std::size_t>(segment.keys), 0.0f);
    const std::size_t tiles =
        (static_cast<std::size_t>(segment.keys) + cpu::kKeyBlock - 1) / cpu::kKeyBlock;
    const cpu::ChainProblem form{.kind = setup.chain.kind};
    dchain_tiles.assign(tiles * form.tile_size(setup.dim, setup.padded_dim), 0.0f);
  }
  const Cope* cope = setup.cope();
  if (cope != nullptr) {
    if (has_gate_vectors(*cope)) dgate_keys.assign(rows, 0.0f);
    const bool interpolates = cope->variant == Cope::Variant::kInterpolate;
    dcope.assign((interpolates ? setup.dim : group) * setup.cope_stride, 0.0f);
  }
  if (const RelativeQuery* relative = setup.relative_query()) {
    const cpu::RelativeProblem& form = setup.relative_form;
    drelative.assign((relative->per_head ? group : 1) * form.channels * form.stride, 0.0f);
    if (relative->vectors) {
      dvectors.assign(2 * static_cast<std::size_t>(state.shape.heads) * setup.dim, 0.0);
    }
  }
  for (const auto& term : setup.pairs) {
    pairs.push_back(term->zero_gradients(segment));
    if (term->reads_keys()) dk_plain.assign(rows, 0.0f);
  }
  const bool trains =
      std::any_of(state.temperatures.begin(), state.temperatures.end(),
                  [&](std::size_t index) { return state.config<Temperature>(index)->trained(); });
  if (trains) {
    dtemperatures.assign(state.temperatures.size() * static_cast<std::size_t>(state.shape.heads),
                         0.0);
  }
  if (state.token) dtoken_sums.assign(group * static_cast<std::size_t>(segment.keys), 0.0);
  if (state.token && setup.slice != nullptr) {
    dtoken_rows.assign(group * static_cast<std::size_t>(segment.queries), 0.0);
  }
  if (state.fire) {
    dfire_slopes.assign(group * setup.fire.segments(), 0.0);
    dfire_intercepts = dfire_slopes;
    dfire_rows.assign(2, 0.0);
    dfire_psi.assign(cpu::kQueryBlock, 0.0f);
    dfire_scale = dfire_psi;
  }
  dsinks.assign(setup.sinks.size() * static_cast<std::size_t>(state.shape.heads), 0.0);
  if (setup.toeplitz != nullptr) {
    dtoeplitz.assign(group * static_cast<std::size_t>(setup.distances.span()), 0.0f);
  }
  for (std::size_t r = 0; r < state.rotary.size(); ++r) {
    const Rotary& rotary = setup.tables[r]->rotary();
    const bool learnable = is_learnable(state.spec.encodings[state.rotary[r]]);
    const std::int64_t angle_rows =
        rope_of_input(state, r) != nullptr ? segment.keys : (learnable ? rotary.groups() : 0);
    dfrequencies.emplace_back(static_cast<std::size_t>(angle_rows * rotary.pairs()), 0.0);
  }
  for (std::vector<double>& buffer : dfrequencies) {
    frequency_pointers_.push_back(buffer.empty() ? nullptr : buffer.data());
  }
}

cpu::BackwardOutputs TaskGradients::outputs(const AttentionSetup& setup, std::int64_t head) {
  const std::int64_t group = setup.state->shape.heads / setup.state->kv_heads;
  const auto in_group = static_cast<std::size_t>(head % group);
  cpu::BackwardOutputs out;
  out.dk = dk.data();
  out.dv = dv.data();
  out.dgate_keys = dgate_keys.data();
  out.dchain_keys = dchain_keys.data();
  out.dchain_tiles = dchain_tiles.data();
  out.dsteps = dsteps.data();
  out.dfactors = dfactors.data();
  if (!dtoeplitz.empty()) {
    out.dtoeplitz = dtoeplitz.data() + in_group * static_cast<std::size_t>(setup.distances.span()) +
                    setup.distances.before;
  }
  if (!drelative.empty()) {
    const cpu::RelativeProblem& form = setup.relative_form;
    const std::size_t table = setup.relative_query()->per_head ? in_group : 0;
    out.drelative_table = drelative.data() + table * form.channels * form.stride;
  }
  if (!dtoken_sums.empty()) {
    out.dtoken_sums = dtoken_sums.data() + in_group * static_cast<std::size_t>(segment.keys);
    out.dtoken_queries = out.dtoken_sums;
  }
  if (!dtoken_rows.empty()) {
    out.dtoken_queries = dtoken_rows.data() + in_group * static_cast<std::size_t>(segment.queries) -
                         segment.place_offset();
  }
  if (!dfire_slopes.empty()) {
    out.dfire_slopes = dfire_slopes.data() + in_group * setup.fire.segments();
    out.dfire_intercepts = dfire_intercepts.data() + in_group * setup.fire.segments();
    out.dfire_psi = dfire_psi.data();
    out.dfire_scale = dfire_scale.data();
  }
  const Cope* cope = setup.cope();
  if (cope != nullptr && cope->variant == Cope::Variant::kInterpolate)
    out.dembedding = dcope.data();
  if (cope != nullptr && cope->variant == Cope::Variant::kAlibi) {
    out.dshared = dcope.data() + in_group * setup.cope_stride;
  }
  return out;
}

void TaskGradients::add_sinks(const AttentionSetup& setup, std::int64_t head, float lse,
                              float delta) {
  const auto heads = static_cast<std::size_t>(setup.state->shape.heads);
  for (std::size_t i = 0; i < setup.sinks.size(); ++i) {
    const auto weight = static_cast<double>(std::exp(setup.sinks[i][head] - lse));
    dsinks[i * heads + static_cast<std::size_t>(head)] -= weight * static_cast<double>(delta);
  }
}

void TaskGradients::add_temperatures(const AttentionSetup& setup, std::int64_t head,
                                     std::int64_t query, const float* turned,
                                     const float* gradient) {
  const AttentionPlan::State& state = *setup.state;
  const std::int64_t position =
      setup.q_ids[(segment.batch * setup.call->q.tokens() + query) * setup.axes];
  double product = 0.0;
  for (std::size_t c = 0; c < setup.dim; ++c) {
    product += static_cast<double>(turned[c]) * static_cast<double>(gradient[c]);
  }
  for (std::size_t i = 0; i < state.temperatures.size(); ++i) {
    const std::size_t index = state.temperatures[i];
    const auto& config = *state.config<Temperature>(index);
    if (!config.trained()) continue;
    dtemperatures[i * static_cast<std::size_t>(state.shape.heads) +
                  static_cast<std::size_t>(head)] +=
        static_cast<double>(setup.scale) * product *
        query_factor(state, *setup.call->parameters, head, position, index);
  }
}

void TaskGradients::add_vectors(const AttentionSetup& setup, std::int64_t head,
                                const float* of_content, const float* of_position) {
  if (dvectors.empty()) return;
  const std::size_t half = dvectors.size() / 2;
  double* to = dvectors.data() + static_cast<std::size_t>(head) * setup.dim;
  for (std::size_t c = 0; c < setup.dim; ++c) {
    to[c] += static_cast<double>(of_content[c]);
    to[half + c] += static_cast<double>(of_position[c]);
  }
}

void TaskGradients::add_pairs(const AttentionSetup& setup, const PairBlock& block,
                              const AlignedFloats& dpairs) {
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    setup.pairs[i]->add_gradients(block, dpairs.data(), pairs[i], dk_plain.data());
  }
}

void TaskGradients::finish_rows(const AttentionSetup& setup, const cpu::QueryBlock& block) {
  if (!setup.state->fire) return;
  const std::size_t index = *setup.state->fire;
  Parameters sums = {{0.0}, {0.0}};
  for (std::size_t r = 0; r < block.count; ++r) {
    setup.fire.add_row_gradient(
        *setup.state->config<Fire>(index), (*setup.call->parameters)[index],
        segment.key_place + segment.place_offset() + static_cast<std::int64_t>(block.first + r),
        static_cast<double>(dfire_psi[r]), static_cast<double>(dfire_scale[r]), sums);
  }
  dfire_rows[0] += sums[0][0];
  dfire_rows[1] += sums[1][0];
}

void write_token_gradients(const AttentionSetup& setup, std::size_t encoding,
                           const Segment& segment, std::int64_t kv_head,
                           std::span<const double> dsums, std::span<const TensorView> dinputs) {
  const AttentionPlan::State& state = *setup.state;
  const TensorView& to = dinputs[first_input(state.inputs, encoding)];
  const std::int64_t group = state.shape.heads / state.kv_heads;
  const std::int64_t sharing = state.shape.heads / to.heads();
  const TokenForm form =
      *token_form(state.spec.encodings[encoding], static_cast<double>(setup.scale));
  const auto keys = static_cast<std::size_t>(segment.keys);
  std::vector<double> gradient(keys);
  for (std::int64_t h = 0; h < group; ++h) {
    if (h % sharing == 0) std::fill(gradient.begin(), gradient.end(), 0.0);
    token_sums_backward(form, dsums.subspan(static_cast<std::size_t>(h) * keys, keys),
                        real_keys(*setup.call, segment), gradient);
    if ((h + 1) % sharing != 0) continue;
    for (std::size_t j = 0; j < keys; ++j) {
      const auto value = static_cast<float>(gradient[j]);
      write_row(to, segment.batch, (kv_head * group + h) / sharing,
                segment.first_key + static_cast<std::int64_t>(j), &value);
    }
  }
}

namespace {

// The tasks of a key head add to the angles of the same keys.
void add_angles(const AttentionSetup& setup, const TaskGradients& other, TaskGradients& sum) {
  for (std::size_t r = 0; r < setup.state->rotary.size(); ++r) {
    if (rope_of_input(*setup.state, r) == nullptr) continue;
    std::transform(other.dfrequencies[r].begin(), other.dfrequencies[r].end(),
                   sum.dfrequencies[r].begin(), sum.dfrequencies[r].begin(), std::plus<>());
  }
}

// From the gradient of key angles to that of the input. A step is part of the sums of its token and all later ones.
void write_angle_gradients(const AttentionBackwardCall& call, const AttentionSetup& setup,
                           TaskGradients& sum) {
  const AttentionPlan::State& state = *setup.state;
  for (std::size_t r = 0; r < state.rotary.size(); ++r) {
    const Rope* rope = rope_of_input(state, r);
    if (rope == nullptr) continue;
    const Rotary& rotary = state.rotations[r];
    const TensorView& to = call.dinputs[first_input(state.inputs, state.rotary[r])];
    const std::vector<double>& frequencies =
        rotary.inv_freq[rotary.group_of(sum.kv_head, state.kv_heads)];
    const auto real = real_keys(call.forward, sum.segment);
    std::vector<double> gradient(static_cast<std::size_t>(to.channels()), 0.0);
    std::vector<float> row(gradient.size());
    for (std::int64_t t = sum.segment.keys; t-- > 0;) {
      if (!rope->running) std::fill(gradient.begin(), gradient.end(), 0.0);
      const double* angles =
          sum.dfrequencies[r].data() + static_cast<std::size_t>(t) * frequencies.size();
      const bool per_pair = rope->angles == Rope::Angles::kInput;
      for (std::size_t p = 0; p < frequencies.size(); ++p) {
        gradient[per_pair ? p : 0] += per_pair ? angles[p] : angles[p] * frequencies[p];
      }
      const bool hidden = rope->running && !real.empty() && real[t] == 0;
      for (std::size_t c = 0; c < row.size(); ++c) {
        row[c] = hidden ? 0.0f : static_cast<float>(gradient[c]);
      }
      write_row(to, sum.segment.batch, sum.kv_head, sum.segment.first_key + t, row.data());
    }
  }
}

}  // namespace

void write_key_gradients(const AttentionBackwardCall& call, const AttentionSetup& setup,
                         std::size_t splits, std::vector<TaskGradients>& tasks) {
  const Cope* cope = setup.cope();
  const bool gates_from_values = cope != nullptr && cope->gate_source == Cope::GateSource::kValue;
  const TensorView* dgates = gate_gradient(call);
  std::vector<RowTurner> turners(num_threads(), RowTurner(setup));
  const auto heads = static_cast<std::int64_t>(tasks.size() / splits);
  std::vector<AlignedFloats> plains(turners.size(), AlignedFloats(setup.padded_dim));
  std::vector<AlignedFloats> scratch(turners.size(), chain_scratch(setup));
  parallel_for(heads, [&](std::int64_t index, int worker) {
    TaskGradients& sum = tasks[static_cast<std::size_t>(index) * splits];
    for (std::size_t s = 1; s < splits; ++s) {
      const TaskGradients& other = tasks[static_cast<std::size_t>(index) * splits + s];
      add(other.dk, sum.dk);
      add(other.dv, sum.dv);
      add(other.dgate_keys, sum.dgate_keys);
      add(other.dk_plain, sum.dk_plain);
      for (std::size_t i = 0; i < sum.pairs.size(); ++i) {
        std::transform(other.pairs[i].rows.begin(), other.pairs[i].rows.end(),
                       sum.pairs[i].rows.begin(), sum.pairs[i].rows.begin(), std::plus<>());
        std::transform(other.pairs[i].sums.begin(), other.pairs[i].sums.end(),
                       sum.pairs[i].sums.begin(), sum.pairs[i].sums.begin(), std::plus<>());
      }
      add(other.dchain_keys, sum.dchain_keys);
      add(other.dchain_tiles, sum.dchain_tiles);
      add(other.dsteps, sum.dsteps);
      add(other.dfactors, sum.dfactors);
      add_angles(setup, other, sum);
      std::transform(other.dtoken_sums.begin(), other.dtoken_sums.end(), sum.dtoken_sums.begin(),
                     sum.dtoken_sums.begin(), std::plus<>());
      std::transform(other.dtoken_rows.begin(), other.dtoken_rows.end(), sum.dtoken_rows.begin(),
                     sum.dtoken_rows.begin(), std::plus<>());
    }
    if (setup.state->token && setup.slice == nullptr) {
      write_token_gradients(setup, *setup.state->token, sum.segment, sum.kv_head, sum.dtoken_sums,
                            call.dinputs);
    }
    for (std::size_t i = 0; i < sum.pairs.size(); ++i) {
      setup.pairs[i]->write_inputs(sum.pairs[i], sum.segment, sum.kv_head, call.dinputs);
    }
    write_chain_gradients(call, setup, scratch[worker], sum);
    if (gates_from_values) add(sum.dgate_keys, sum.dv);
    AlignedFloats& plain = plains[worker];
    for (std::int64_t j = 0; j < sum.segment.keys; ++j) {
      const std::int64_t key = sum.segment.first_key + j;
      const std::size_t at = static_cast<std::size_t>(j) * setup.padded_dim;
      read_row(call.forward.k, sum.segment.batch, sum.kv_head, key, setup.padded_dim, plain.data());
      // A key that no query sees may be NaN, and adds nothing to the frequencies.
      const auto* dk = sum.dk.data() + at;
      const bool seen = std::any_of(dk, dk + setup.dim, [](float x) { return x != 0.0f; });
      if (!call.forward.keys_are_turned && seen)
        turners[worker].backward(Role::kKey, sum.kv_head, setup.state->kv_heads, sum.segment.batch,
                                 key, plain.data(), sum.dk.data() + at, sum.frequencies(),
                                 sum.segment.first_key);
      for (std::size_t c = 0; c < setup.dim && !sum.dk_plain.empty(); ++c) {
        sum.dk[at + c] += sum.dk_plain[at + c];
      }
      auto* dv = sum.dv.data() + static_cast<std::size_t>(j) * setup.padded_value_dim;
      if (setup.state->rotates_values &&
          std::any_of(dv, dv + setup.dim, [](float x) { return x != 0.0f; })) {
        read_row(call.forward.v, sum.segment.batch, sum.kv_head, key, setup.padded_dim,
                 plain.data());
        turners[worker].value_backward(Role::kKey, sum.kv_head, setup.state->kv_heads,
                                       sum.segment.batch, key, plain.data(), dv, sum.frequencies(),
                                       sum.segment.first_key);
      }
      write_row(call.dk, sum.segment.batch, sum.kv_head, key, sum.dk.data() + at);
      write_row(call.dv, sum.segment.batch, sum.kv_head, key, dv);
      if (dgates != nullptr) {
        write_row(*dgates, sum.segment.batch, sum.kv_head, key, sum.dgate_keys.data() + at);
      }
    }
    write_angle_gradients(call, setup, sum);
  });
}

void add_slice_sums(const AttentionSetup& setup, std::size_t splits,
                    const std::vector<TaskGradients>& tasks, const SliceGradients& to) {
  if (!setup.state->token) return;
  const auto heads = static_cast<std::size_t>(setup.state->shape.heads);
  const std::size_t group = heads / static_cast<std::size_t>(setup.state->kv_heads);
  for (std::size_t t = 0; t < tasks.size(); t += splits) {
    const TaskGradients& task = tasks[t];
    const std::size_t row = static_cast<std::size_t>(task.segment.batch) * heads +
                            static_cast<std::size_t>(task.kv_head) * group;
    const auto add_to = [&](const std::vector<double>& from, std::span<double> sums) {
      const auto first = sums.begin() + static_cast<std::ptrdiff_t>(row * from.size() / group);
      std::transform(from.begin(), from.end(), first, first, std::plus<>());
    };
    add_to(task.dtoken_sums, to.dkey_sums);
    add_to(task.dtoken_rows, to.dquery_sums);
  }
}

}  // namespace posenc
