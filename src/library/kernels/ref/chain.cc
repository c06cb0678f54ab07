#include "kernels/ref/chain.h"

#include <cmath>

namespace posenc::ref {
namespace {

// The rows of a token in the inputs of a chain, or their gradients. Wall has one.
template <class Number>
struct StepRows {
  std::span<Number> first;
  std::span<Number> second;
};

template <class Number>
StepRows<Number> step_rows(const AttentionCall& call, const std::vector<std::span<Number>>& inputs,
                           std::size_t key) {
  const std::size_t at = first_input(call.token_inputs, *call.chain);
  const auto row = [&](std::size_t i) {
    return vector_at(inputs[i], static_cast<std::int64_t>(key), call.token_inputs[i].info.channels);
  };
  const bool two = std::holds_alternative<Path>(call.spec.encodings[*call.chain]);
  return {row(at), two ? row(at + 1) : std::span<Number>()};
}

void step(const Path& /*path*/, const StepRows<const double>& in, std::span<double> y) {
  add_scaled(-in.second[0] * dot(in.first, y), in.first, y);
}
void step(const Wall& /*wall*/, const StepRows<const double>& in, std::span<double> y) {
  for (std::size_t c = 0; c < y.size(); ++c) y[c] *= std::exp(in.first[c]);
}

// `y` is the query before the step, `dy` the gradient after it, which becomes the gradient before it.
void step_backward(const Path& /*path*/, const StepRows<const double>& in,
                   std::span<const double> y, std::span<double> dy,
                   const StepRows<double>& gradient) {
  const auto& w = in.first;
  const double b = in.second[0];
  const double along = dot(w, y);
  const double dalong = dot(w, dy);
  gradient.second[0] -= along * dalong;
  add_scaled(-b * along, dy, gradient.first);
  add_scaled(-b * dalong, y, gradient.first);
  add_scaled(-b * dalong, w, dy);
}
void step_backward(const Wall& /*wall*/, const StepRows<const double>& in,
                   std::span<const double> y, std::span<double> dy,
                   const StepRows<double>& gradient) {
  for (std::size_t c = 0; c < y.size(); ++c) {
    dy[c] *= std::exp(in.first[c]);
    gradient.first[c] += dy[c] * y[c];
  }
}

template <class Body>
void with_chain(const AttentionCall& call, const Body& body) {
  const Encoding& encoding = call.spec.encodings[*call.chain];
  if (const auto* path = std::get_if<Path>(&encoding)) body(*path);
  if (const auto* wall = std::get_if<Wall>(&encoding)) body(*wall);
}

bool is_real(const AttentionCall& call, std::int64_t batch, std::size_t key) {
  const std::vector<std::uint8_t>& mask = call.options.masking.key_mask;
  return mask.empty() || mask[static_cast<std::size_t>(batch * call.shape.keys) + key] != 0;
}

// Keys that make a step or are met, from the query's own down to the lowest it sees.
std::vector<std::size_t> keys_on_the_way(const AttentionCall& call, const Head& head,
                                         const Row& row) {
  std::vector<std::size_t> keys;
  if (row.blind()) return keys;
  const auto lowest = static_cast<std::size_t>(
      std::find(row.visible.begin(), row.visible.end(), true) - row.visible.begin());
  for (std::size_t j = *row.own_key + 1; j-- > lowest;) {
    if (is_real(call, head.batch, j)) keys.push_back(j);
  }
  return keys;
}

}  // namespace

void check_chain(const AttentionCall& call) {
  require_causal("attention", call.spec, call.options.masking.causal);
}

void check_gates(const AttentionCall& call) {
  for (std::size_t i = 0; i < call.token_inputs.size(); ++i) {
    const InputInfo& info = call.token_inputs[i].info;
    if (!is_gate(info)) continue;
    const auto gates = call.inputs.of_encodings[i];
    const std::int64_t heads = info.head_count(call.shape.heads, call.shape.kv_heads);
    for (std::size_t n = 0; n < gates.size(); ++n) {
      if (is_log_gate(gates[n])) continue;
      const std::int64_t row = static_cast<std::int64_t>(n) / info.channels;
      const TokenPlace place{row / call.shape.keys / heads, row / call.shape.keys % heads,
                             row % call.shape.keys};
      if (is_real(call, place.batch, static_cast<std::size_t>(place.token))) {
        refuse_gate(info, gates[n], place);
      }
    }
  }
}

std::vector<std::vector<double>> chained_queries(const AttentionCall& call, const Head& head,
                                                 const Row& row) {
  std::vector<std::vector<double>> met(row.visible.size());
  std::vector<double> y = row.rotated_q;
  std::optional<std::size_t> above;
  for (const std::size_t key : keys_on_the_way(call, head, row)) {
    if (above) {
      with_chain(call, [&](const auto& chain) {
        step(chain, step_rows(call, head.of_encodings, *above), y);
      });
    }
    met[key] = y;
    above = key;
  }
  return met;
}

std::vector<double> chain_backward(const AttentionCall& call, const Head& head, const Row& row,
                                   const std::vector<std::vector<double>>& gradients,
                                   const std::vector<std::span<double>>& inputs) {
  std::vector<double> dy(row.rotated_q.size(), 0.0);
  const std::vector<std::size_t> keys = keys_on_the_way(call, head, row);
  for (std::size_t n = keys.size(); n-- > 0;) {
    const std::size_t key = keys[n];
    if (n + 1 < keys.size()) {
      with_chain(call, [&](const auto& chain) {
        step_backward(chain, step_rows(call, head.of_encodings, key), row.chained[key], dy,
                      step_rows(call, inputs, key));
      });
    }
    if (row.visible[key]) add_scaled(1.0, gradients[key], dy);
  }
  return dy;
}

}  // namespace posenc::ref
