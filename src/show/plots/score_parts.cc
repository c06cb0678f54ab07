#include "plots/score_parts.h"

#include <cmath>
#include <numeric>

#include "plots/inputs.h"
#include "posenc/kernels/ref/attention.h"
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

// Everything of one head that the maps are computed from.
struct Toy {
  const PlotRequest& request;
  const Spec& spec;
  ref::SpecParameters values;
  Matrix x;  // queries, keys and values alike, before rotation
  std::int64_t tokens;
};

double log_sigmoid(double x) { return -softplus(-x); }

// Rows of an input as its activation leaves them: of length one, or as gates.
void activate(InputInfo::Activation activation, std::int64_t width, Matrix& x) {
  for (auto at = x.begin(); at != x.end(); at += width) {
    const auto row = std::span(&*at, static_cast<std::size_t>(width));
    const double length = std::sqrt(dot(row, row));
    for (double& value : row) {
      if (activation == InputInfo::Activation::kUnitNorm && length > 0.0) value /= length;
      if (activation == InputInfo::Activation::kLogSigmoid) value = log_sigmoid(value);
    }
  }
}

// The vectors on `channels` directions of unit length, which are the same for every request of a seed.
Matrix projected(const Toy& toy, std::int64_t channels) {
  constexpr std::uint64_t kStream = 2000;
  const std::int64_t dim = toy.request.head_dim;
  std::vector<std::vector<double>> directions;
  for (std::int64_t c = 0; c < channels; ++c) {
    directions.push_back(normal_vector(dim, static_cast<std::uint64_t>(toy.request.seed),
                                       kStream + static_cast<std::uint64_t>(c)));
    activate(InputInfo::Activation::kUnitNorm, dim, directions.back());
  }
  Matrix x;
  for (std::int64_t t = 0; t < toy.tokens; ++t) {
    const auto row = std::span(toy.x).subspan(t * dim, static_cast<std::size_t>(dim));
    for (const std::vector<double>& direction : directions) x.push_back(dot(row, direction));
  }
  return x;
}

// One number of each vector, a log-sigmoid.
Matrix toy_numbers(const Toy& toy, InputInfo::Activation activation) {
  Matrix numbers;
  for (std::int64_t t = 0; t < toy.tokens; ++t) {
    const auto x = std::span(toy.x).subspan(t * toy.request.head_dim,
                                            static_cast<std::size_t>(toy.request.head_dim));
    const double sum = std::accumulate(x.begin(), x.end(), 0.0);
    const double gate = log_sigmoid(sum * default_scale(toy.request.head_dim));
    const bool twice = activation == InputInfo::Activation::kTwiceSigmoid;
    numbers.push_back(twice ? 2.0 * std::exp(gate) : gate);
  }
  return numbers;
}

// What stands for an encoding's input, of one head: the vectors, projected where the input is narrower or wider.
Matrix toy_input(const Toy& toy, const InputInfo& info) {
  if (info.channels == 1) return toy_numbers(toy, info.activation);
  Matrix x = info.channels == toy.request.head_dim ? toy.x : projected(toy, info.channels);
  activate(info.activation, info.channels, x);
  return x;
}

// One copy per head of what every head has.
Matrix for_heads(const Matrix& one, std::int64_t heads) {
  Matrix all;
  for (std::int64_t h = 0; h < heads; ++h) all.insert(all.end(), one.begin(), one.end());
  return all;
}

ref::AttentionOutput attend(const Toy& toy) {
  const ref::AttentionShape shape{.batch = 1,
                                  .heads = toy.request.heads,
                                  .kv_heads = 1,
                                  .queries = toy.tokens,
                                  .keys = toy.tokens,
                                  .head_dim = toy.request.head_dim};
  const Spec spec = attention_part(toy.spec);  // the vectors hold what site 1 adds
  ref::SpecParameters values;
  for (std::size_t e = 0; e < toy.values.size(); ++e) {
    if (traits(toy.spec.encodings[e]).site != Site::kInput) values.push_back(toy.values[e]);
  }
  const Matrix q = for_heads(toy.x, shape.heads);
  std::vector<Matrix> given;
  for (const SpecInput& input : token_inputs(spec, shape_of(toy.request))) {
    given.push_back(
        for_heads(toy_input(toy, input.info), input.info.head_count(shape.heads, shape.kv_heads)));
  }
  const ref::AttentionInputs inputs{
      .q = q, .k = toy.x, .v = toy.x, .of_encodings = {given.begin(), given.end()}};
  ref::AttentionOptions options;
  options.masking.causal = toy.request.causal;
  options.keep_weights = options.keep_parts = true;
  return ref::attention(spec, values, shape, inputs, options);
}

}  // namespace

ScoreParts score_parts(const PlotRequest& request, const Spec& spec, const Words& words) {
  Toy toy{request, spec, start_values(request, spec), {}, std::ssize(words.tokens)};
  toy.x = token_vectors(request, words, spec, toy.values);
  const ref::AttentionOutput found = attend(toy);
  const std::int64_t size = toy.tokens * toy.tokens;
  const auto of_head = [&](const Matrix& all) {
    const auto first = all.begin() + request.head * size;
    return Matrix(first, first + size);
  };
  return {of_head(found.raw), of_head(found.bias), of_head(found.content), of_head(found.weights)};
}

}  // namespace posenc::plots
