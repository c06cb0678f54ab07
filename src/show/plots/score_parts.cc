#include "plots/score_parts.h"

#include <cmath>
#include <numeric>

#include "plots/inputs.h"
#include "posenc/kernels/ref/embedding.h"

namespace posenc::plots {
namespace {

using Matrix = std::vector<double>;  // [T, D] or [T, T], row-major

// Word vectors as long as a sinusoidal one, plus what site 1 adds; scaled so that a word scores
// match_score with itself where nothing else happens.
Matrix token_vectors(const PlotRequest& request, const Words& words, const Spec& spec,
                     const ref::SpecParameters& values) {
  const auto dim = static_cast<double>(request.head_dim);
  Matrix x;
  for (const std::string& token : words.tokens) {
    for (const double value : word_vector(request, token)) {
      x.push_back(std::sqrt(dim / 2.0) * value);
    }
  }
  const ref::EmbeddingShape shape{
      .batch = 1, .tokens = std::ssize(words.tokens), .model_dim = request.head_dim};
  x = ref::add_embeddings(spec, values, shape, x);
  const double scale = std::sqrt(request.match_score * std::sqrt(dim)) / std::sqrt(dim / 2.0);
  for (double& value : x) value *= scale;
  return x;
}

std::span<const double> row(const Matrix& m, std::int64_t index, std::int64_t width) {
  return std::span(m).subspan(index * width, static_cast<std::size_t>(width));
}

// Everything of one head that the maps are computed from.
struct Toy {
  const PlotRequest& request;
  const Spec& spec;
  ref::SpecParameters values;
  Matrix x;  // queries, keys and values alike, before rotation
  std::int64_t tokens;

  [[nodiscard]] bool hidden(std::int64_t i, std::int64_t j) const {
    return request.causal && j > i;
  }
};

// Both in place; a single coordinate serves every axis, as in the reference.
void turn(const Rotary& rotary, Role role, std::int64_t group, Matrix& x) {
  std::vector<double> cos(rotary.pairs());
  std::vector<double> sin(cos.size());
  const std::int64_t tokens = std::ssize(x) / rotary.head_dim;
  for (std::int64_t t = 0; t < tokens; ++t) {
    const std::vector<std::int64_t> position(rotary.axes.axes, t);
    rotary_row(rotary, role, group, position, cos, sin);
    const auto at = static_cast<std::size_t>(t * rotary.head_dim);
    rotate(rotary, cos, sin, std::span(x).subspan(at, static_cast<std::size_t>(rotary.head_dim)));
  }
}

struct Rotated {
  Matrix q;
  Matrix k;
  double scale;  // of scores, a schedule's factor included
};

Rotated rotated(const Toy& toy) {
  const PlotRequest& request = toy.request;
  Rotated result{toy.x, toy.x, default_scale(request.head_dim)};
  const Lengths lengths{.sequence = toy.tokens, .context = 0};
  const auto apply = [&]<class E>(const E& e) {
    if constexpr (RotaryEncoding<E>) {
      const Rotary rotary = make_rotary(e, shape_of(request), lengths);
      const std::int64_t group = rotary.group_of(request.head, request.heads);
      turn(rotary, Role::kQuery, group, result.q);
      turn(rotary, Role::kKey, group, result.k);
      result.scale *= rotary.softmax_factor;
    }
  };
  for (const Encoding& encoding : toy.spec.encodings) std::visit(apply, encoding);
  return result;
}

Matrix products(const Toy& toy, const Matrix& q, const Matrix& k, double scale) {
  const std::int64_t dim = toy.request.head_dim;
  Matrix result;
  for (std::int64_t i = 0; i < toy.tokens; ++i) {
    for (std::int64_t j = 0; j < toy.tokens; ++j) {
      result.push_back(scale * dot(row(q, i, dim), row(k, j, dim)));
    }
  }
  return result;
}

Matrix biases(const Toy& toy) {
  Matrix sum(static_cast<std::size_t>(toy.tokens * toy.tokens), 0.0);
  for (std::size_t e = 0; e < toy.spec.encodings.size(); ++e) {
    const auto add = [&]<class E>(const E& encoding) {
      if constexpr (BiasEncoding<E>) {
        for (std::int64_t i = 0; i < toy.tokens; ++i) {
          for (std::int64_t j = 0; j < toy.tokens; ++j) {
            sum[i * toy.tokens + j] += bias(encoding, toy.values[e], toy.request.head, i, j);
          }
        }
      }
    };
    std::visit(add, toy.spec.encodings[e]);
  }
  return sum;
}

// CoPE's logits c_ij of one query, from its gate logits.
std::vector<double> content_row(const Toy& toy, const Cope& config, const Parameters& values,
                                std::span<const double> gate_logits, std::int64_t i) {
  const std::int64_t dim = toy.request.head_dim;
  std::vector<bool> visible;
  for (std::int64_t j = 0; j < toy.tokens; ++j) visible.push_back(!toy.hidden(i, j));
  const std::vector<double> table =
      cope_table(config, values[0], row(toy.x, i, dim), toy.request.head);
  std::vector<double> logits(visible.size());
  cope_logits(config, cope_positions(config, gate_logits, visible), table, logits);
  for (double& c : logits) c *= logit_factor(config, dim);
  return logits;
}

// What stands for an encoding's input, of one head: the vectors, or one number of each, a log-sigmoid.
Matrix toy_input(const Toy& toy, const InputInfo& info) {
  if (info.channels == toy.request.head_dim) return toy.x;
  Matrix numbers;
  for (std::int64_t t = 0; t < toy.tokens; ++t) {
    const std::span<const double> x = row(toy.x, t, toy.request.head_dim);
    const double sum = std::accumulate(x.begin(), x.end(), 0.0);
    numbers.push_back(-std::log1p(std::exp(-sum * default_scale(toy.request.head_dim))));
  }
  return numbers;
}

// c_i - c_j of a token term.
void add_token_term(const Toy& toy, const Encoding& encoding, double scale, Matrix& sum) {
  const InputInfo input = token_inputs(encoding, shape_of(toy.request)).at(0);
  const TokenSums sums = token_sums(*token_form(encoding, scale), toy_input(toy, input), {});
  for (std::int64_t n = 0; n < toy.tokens * toy.tokens; ++n) {
    sum[n] += sums.at_query[n / toy.tokens] - sums.at_key[n % toy.tokens];
  }
}

Matrix contents(const Toy& toy, const ScoreParts& parts, double scale) {
  Matrix sum(parts.raw.size(), 0.0);
  for (std::size_t e = 0; e < toy.spec.encodings.size(); ++e) {
    const Encoding& encoding = toy.spec.encodings[e];
    if (token_form(encoding, scale)) add_token_term(toy, encoding, scale, sum);
    const auto* config = std::get_if<Cope>(&encoding);
    if (config == nullptr) continue;
    const bool from_raw = !has_gate_vectors(*config);
    Matrix gates = from_raw ? parts.raw : products(toy, toy.x, toy.x, scale);
    for (std::size_t n = 0; n < gates.size() && config->gates_see_bias; ++n) {
      gates[n] += parts.bias[n];
    }
    for (std::int64_t i = 0; i < toy.tokens; ++i) {
      const auto logits = content_row(toy, *config, toy.values[e], row(gates, i, toy.tokens), i);
      for (std::int64_t j = 0; j < toy.tokens; ++j) {
        sum[i * toy.tokens + j] += logits[j];
      }
    }
  }
  return sum;
}

// The library's own weights; the other maps are their parts.
Matrix weights(const Toy& toy) {
  const ref::AttentionShape shape{.batch = 1,
                                  .heads = toy.request.heads,
                                  .kv_heads = 1,
                                  .queries = toy.tokens,
                                  .keys = toy.tokens,
                                  .head_dim = toy.request.head_dim};
  Matrix q;
  for (std::int64_t h = 0; h < shape.heads; ++h) q.insert(q.end(), toy.x.begin(), toy.x.end());
  ref::AttentionOptions options;
  options.masking.causal = toy.request.causal;
  options.keep_weights = true;
  const Spec spec = attention_part(toy.spec);  // the vectors hold what site 1 adds
  ref::SpecParameters values;
  for (std::size_t e = 0; e < toy.values.size(); ++e) {
    if (traits(toy.spec.encodings[e]).site != Site::kInput) values.push_back(toy.values[e]);
  }
  ref::AttentionInputs inputs{.q = q, .k = toy.x, .v = toy.x, .of_encodings = {}};
  const ModelShape model{.head_dim = shape.head_dim, .heads = shape.heads, .model_dim = 0};
  std::vector<Matrix> given;
  for (const SpecInput& input : token_inputs(spec, model)) {
    const Matrix one = toy_input(toy, input.info);
    given.emplace_back();
    for (std::int64_t h = 0; h < input.info.head_count(shape.heads, shape.kv_heads); ++h) {
      given.back().insert(given.back().end(), one.begin(), one.end());
    }
  }
  inputs.of_encodings.assign(given.begin(), given.end());
  const Matrix all = ref::attention(spec, values, shape, inputs, options).weights;
  const std::int64_t size = toy.tokens * toy.tokens;
  const auto first = all.begin() + toy.request.head * size;
  return Matrix(first, first + size);
}

}  // namespace

ScoreParts score_parts(const PlotRequest& request, const Spec& spec, const Words& words) {
  Toy toy{request, spec, start_values(request, spec), {}, std::ssize(words.tokens)};
  toy.x = token_vectors(request, words, spec, toy.values);
  const Rotated turned = rotated(toy);
  ScoreParts parts;
  parts.raw = products(toy, turned.q, turned.k, turned.scale);
  parts.bias = biases(toy);
  parts.content = contents(toy, parts, turned.scale);
  parts.weight = weights(toy);
  return parts;
}

}  // namespace posenc::plots
