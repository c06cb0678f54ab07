#include "kernels/ref/checks.h"
#include "kernels/ref/vectors.h"
#include "posenc/kernels/ref/embedding.h"

namespace posenc::ref {
namespace {

constexpr const char* kScope = "embedding";

bool is_input(Site site) { return site == Site::kInput; }

// Positions [B, T], after every check.
std::vector<std::int64_t> checked_positions(const Spec& spec, const SpecParameters& parameters,
                                            const EmbeddingShape& shape, const std::string& key,
                                            std::size_t size,
                                            std::span<const std::int64_t> positions) {
  require_at_least(kScope, "batch", shape.batch, 0);
  require_at_least(kScope, "tokens", shape.tokens, 0);
  require_at_least(kScope, "model_dim", shape.model_dim, 1);
  require_size(kScope, key, size, shape.batch * shape.tokens * shape.model_dim,
               "[B, T, model_dim]");
  check_parameters(kScope, spec, parameters,
                   {.head_dim = shape.model_dim, .heads = 1, .model_dim = shape.model_dim},
                   is_input);
  if (positions.empty()) {
    const std::vector<std::int64_t> starts(shape.batch, 0);
    return offset_positions(starts, shape.tokens);
  }
  require_size(kScope, "positions", positions.size(), shape.batch * shape.tokens, "[B, T]");
  for (const std::int64_t n : positions) require_exact_position(kScope, "positions", n);
  return {positions.begin(), positions.end()};
}

void add_to(const Learned& learned, const Parameters& values, std::int64_t position,
            std::span<double> y) {
  add_scaled(1.0, embedding(learned, values, position, std::ssize(y)), y);
}

void add_to(const Sinusoidal& sinusoidal, const Parameters& /*values*/, std::int64_t position,
            std::span<double> y) {
  std::vector<double> waves(y.size());
  embedding(sinusoidal, position, waves);
  add_scaled(1.0, waves, y);
}

}  // namespace

std::vector<double> add_embeddings(const Spec& spec, const SpecParameters& parameters,
                                   const EmbeddingShape& shape, std::span<const double> x,
                                   std::span<const std::int64_t> positions) {
  const auto n = checked_positions(spec, parameters, shape, "x", x.size(), positions);
  std::vector<double> y(x.begin(), x.end());
  for (std::size_t e = 0; e < spec.encodings.size(); ++e) {
    const auto add = [&]<class E>(const E& encoding) {
      if constexpr (E::kTraits.site == Site::kInput) {
        for (std::size_t t = 0; t < n.size(); ++t) {
          add_to(encoding, parameters[e], n[t],
                 vector_at(std::span(y), static_cast<std::int64_t>(t), shape.model_dim));
        }
      }
    };
    std::visit(add, spec.encodings[e]);
  }
  return y;
}

EmbeddingGradients add_embeddings_backward(const Spec& spec, const SpecParameters& parameters,
                                           const EmbeddingShape& shape,
                                           std::span<const double> grad_out,
                                           std::span<const std::int64_t> positions) {
  const auto n = checked_positions(spec, parameters, shape, "grad_out", grad_out.size(), positions);
  EmbeddingGradients gradients{{grad_out.begin(), grad_out.end()}, zeros_like(parameters)};
  for (std::size_t e = 0; e < spec.encodings.size(); ++e) {
    static_assert(encodings_at(Site::kInput) == 2, "of the inputs, Learned alone has parameters");
    const auto* learned = std::get_if<Learned>(&spec.encodings[e]);
    if (learned == nullptr) continue;
    for (std::size_t t = 0; t < n.size(); ++t) {
      embedding(*learned, parameters[e], n[t], shape.model_dim);  // refuses what the table lacks
      add_scaled(1.0, vector_at(grad_out, static_cast<std::int64_t>(t), shape.model_dim),
                 vector_at(std::span(gradients.parameters[e][0]), n[t], shape.model_dim));
    }
  }
  return gradients;
}

}  // namespace posenc::ref
