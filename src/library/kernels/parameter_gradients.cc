// From what the tasks of a backward have added up to the gradients of the encodings' parameters.
#include <algorithm>

#include "kernels/attention_gradients.h"

namespace posenc {
namespace {

void add_biases(const AttentionSetup& setup, const std::vector<TaskGradients>& tasks,
                std::vector<Parameters>& gradients) {
  const AttentionPlan::State& state = *setup.state;
  const std::int64_t group = state.shape.heads / state.kv_heads;
  const auto span = static_cast<std::size_t>(setup.distances.span());
  for (std::int64_t head = 0; !state.biases.empty() && head < state.shape.heads; ++head) {
    std::vector<double> table(span, 0.0);
    for (const TaskGradients& task : tasks) {
      if (task.kv_head != head / group) continue;
      const float* from = task.dtoeplitz.data() + static_cast<std::size_t>(head % group) * span;
      for (std::size_t i = 0; i < span; ++i) table[i] += static_cast<double>(from[i]);
    }
    add_distance_gradients(state, *setup.call->parameters, head, setup.distances.before, table,
                           gradients);
  }
}

void add_fire(const AttentionSetup& setup, const std::vector<TaskGradients>& tasks,
              std::vector<Parameters>& gradients) {
  if (!setup.state->fire) return;
  const std::size_t index = *setup.state->fire;
  const std::int64_t group = setup.state->shape.heads / setup.state->kv_heads;
  for (const TaskGradients& task : tasks) {
    for (std::int64_t h = 0; h < group; ++h) {
      const std::size_t at = static_cast<std::size_t>(h) * setup.fire.segments();
      setup.fire.add_network_gradient((*setup.call->parameters)[index], task.kv_head * group + h,
                                      task.dfire_slopes.data() + at,
                                      task.dfire_intercepts.data() + at, gradients[index]);
    }
    gradients[index][0][0] += task.dfire_rows[0];
    gradients[index][1][0] += task.dfire_rows[1];
  }
}

void add_sinks(const AttentionSetup& setup, const std::vector<TaskGradients>& tasks,
               std::vector<Parameters>& gradients) {
  const auto heads = static_cast<std::size_t>(setup.state->shape.heads);
  for (std::size_t i = 0; i < setup.sinks.size(); ++i) {
    std::vector<double>& gradient = gradients[setup.state->sinks[i]][0];
    for (const TaskGradients& task : tasks) {
      for (std::size_t h = 0; h < heads; ++h) gradient[h] += task.dsinks[i * heads + h];
    }
  }
}

void add_temperatures(const AttentionSetup& setup, const std::vector<TaskGradients>& tasks,
                      std::vector<Parameters>& gradients) {
  const auto heads = static_cast<std::size_t>(setup.state->shape.heads);
  for (std::size_t i = 0; i < setup.state->temperatures.size(); ++i) {
    Parameters& gradient = gradients[setup.state->temperatures[i]];
    for (const TaskGradients& task : tasks) {
      for (std::size_t h = 0; h < heads && !gradient.empty(); ++h) {
        gradient[0][h] += task.dtemperatures[i * heads + h];
      }
    }
  }
}

void add_relative(const AttentionSetup& setup, const std::vector<TaskGradients>& tasks,
                  std::vector<Parameters>& gradients) {
  const RelativeQuery* config = setup.relative_query();
  if (config == nullptr) return;
  const cpu::RelativeProblem& form = setup.relative_form;
  const auto group = static_cast<std::size_t>(setup.state->shape.heads / setup.state->kv_heads);
  const double factor = config->factor(static_cast<double>(setup.scale));
  Parameters& all = gradients[*setup.state->relative_query];
  std::vector<double>& gradient = all[0];
  for (const TaskGradients& task : tasks) {
    const std::size_t first_row =
        config->per_head ? static_cast<std::size_t>(task.kv_head) * group * form.channels : 0;
    for (std::size_t row = 0; row < task.drelative.size() / form.stride; ++row) {
      double* to = gradient.data() + (first_row + row) * config->entries();
      for (std::size_t n = 0; n < form.entries(); ++n) {
        const std::int64_t at = config->entry(form.lowest + static_cast<std::int64_t>(n));
        to[at] += factor * static_cast<double>(task.drelative[row * form.stride + n]);
      }
    }
    const std::size_t half = task.dvectors.size() / 2;
    for (std::size_t i = 0; i < task.dvectors.size(); ++i) {
      all[1 + i / half][i % half] += task.dvectors[i];
    }
  }
}

void add_cope(const AttentionSetup& setup, const std::vector<TaskGradients>& tasks,
              std::vector<Parameters>& gradients) {
  const Cope* cope = setup.cope();
  if (cope == nullptr) return;
  std::vector<double>& gradient = gradients[*setup.state->cope][0];
  const double scale = logit_factor(*cope, static_cast<std::int64_t>(setup.dim));
  const std::int64_t group = setup.state->shape.heads / setup.state->kv_heads;
  for (const TaskGradients& task : tasks) {
    if (cope->variant == Cope::Variant::kInterpolate) {
      for (std::size_t c = 0; c < setup.dim; ++c) {
        for (std::size_t n = 0; n < setup.cope_npos; ++n) {
          gradient[c * setup.cope_npos + n] +=
              scale * static_cast<double>(task.dcope[c * setup.cope_stride + n]);
        }
      }
      continue;
    }
    for (std::int64_t h = 0; h < group; ++h) {
      for (std::size_t n = 0; n < setup.cope_npos; ++n) {
        gradient[task.kv_head * group + h] +=
            scale * static_cast<double>(n) *
            static_cast<double>(task.dcope[static_cast<std::size_t>(h) * setup.cope_stride + n]);
      }
    }
  }
}

// dalpha[p] = SUM over groups of inv_freq * dinv_freq.
void add_alpha(const AttentionSetup& setup, const std::vector<TaskGradients>& tasks,
               std::vector<Parameters>& gradients) {
  const AttentionPlan::State& state = *setup.state;
  for (std::size_t r = 0; r < state.rotary.size(); ++r) {
    if (!is_learnable(state.spec.encodings[state.rotary[r]])) continue;
    const Rotary& rotary = setup.tables[r]->rotary();
    const auto pairs = static_cast<std::size_t>(rotary.pairs());
    for (const TaskGradients& task : tasks) {
      for (std::size_t i = 0; i < task.dfrequencies[r].size(); ++i) {
        gradients[state.rotary[r]][0][i % pairs] +=
            rotary.inv_freq[i / pairs][i % pairs] * task.dfrequencies[r][i];
      }
    }
  }
}

}  // namespace

void add_distance_gradients(const Terms& terms, const std::vector<Parameters>& parameters,
                            std::int64_t head, std::int64_t before, std::span<const double> table,
                            std::vector<Parameters>& gradients) {
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (table[i] == 0.0) continue;
    const std::int64_t d = static_cast<std::int64_t>(i) - before;
    for (const std::size_t index : terms.biases) {
      std::visit(
          [&](const auto& e) {
            if constexpr (BiasEncoding<std::decay_t<decltype(e)>>) {
              add_bias_gradient(e, parameters[index], head, std::max<std::int64_t>(d, 0),
                                std::max<std::int64_t>(-d, 0), table[i], gradients[index]);
            }
          },
          terms.spec.encodings[index]);
    }
  }
}

void sum_parameter_gradients(const AttentionSetup& setup, const std::vector<TaskGradients>& tasks,
                             std::vector<Parameters>& gradients) {
  gradients.clear();
  for (const Encoding& encoding : setup.state->spec.encodings) {
    gradients.push_back(zero_parameters(parameters(encoding, setup.state->shape)));
  }
  add_biases(setup, tasks, gradients);
  add_fire(setup, tasks, gradients);
  add_sinks(setup, tasks, gradients);
  add_temperatures(setup, tasks, gradients);
  add_relative(setup, tasks, gradients);
  add_cope(setup, tasks, gradients);
  for (const TaskGradients& task : tasks) {
    for (std::size_t i = 0; i < task.pairs.size(); ++i) {
      const PairTerm& term = *setup.pairs[i];
      term.add_to_parameters(task.pairs[i], task.kv_head, gradients[term.encoding()]);
    }
  }
  add_alpha(setup, tasks, gradients);
}

}  // namespace posenc
