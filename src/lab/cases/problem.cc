#include "cases/problem.h"

#include "cases/attention_data.h"
#include "cases/embedding_problem.h"
#include "cases/rope_problem.h"
#include "posenc/core/error.h"

namespace posenc::cases {

std::unique_ptr<Problem> make_problem(const Case& c) {
  switch (c.op) {
    case Operation::kRope:
      return std::make_unique<RopeProblem>(c);
    case Operation::kLinearAttention:
      return std::make_unique<LinearAttentionProblem>(c);
    case Operation::kEmbedding:
      return std::make_unique<EmbeddingProblem>(c);
    case Operation::kAttention:
    case Operation::kDecode:
      break;
  }
  return std::make_unique<AttentionProblem>(c);
}

Case away_from_kinks(Case c) {
  constexpr int kTries = 20;
  for (int i = 0; i < kTries; ++i, ++c.seed) {
    if (!make_problem(c)->at_a_kink()) return c;
  }
  throw Error(ErrorKind::kUnsupported, {.scope = "case",
                                        .key = name_of(c),
                                        .rule = "has too many whole positions to be differentiated",
                                        .hint = "make it smaller"});
}

std::vector<Parameters> random_parameters(const Spec& spec, const ModelShape& shape, Rng& rng) {
  std::vector<Parameters> all;
  for (const Encoding& encoding : spec.encodings) {
    Parameters values = initial_parameters(parameters(encoding, shape), rng);
    // KERPLE clamps small and large values, where its gradient jumps.
    const bool kerple = std::holds_alternative<Kerple>(encoding);
    for (std::vector<double>& list : values) {
      for (double& x : list) {
        x = static_cast<float>(kerple ? rng.uniform(0.2, 1.5) : x + 0.1 * rng.normal());
      }
    }
    all.push_back(std::move(values));
  }
  return all;
}

void append_parameter_gradients(const Spec& spec, const std::vector<Parameters>& gradients,
                                double terms, std::vector<Result>& results) {
  for (std::size_t e = 0; e < gradients.size(); ++e) {
    for (std::size_t p = 0; p < gradients[e].size(); ++p) {
      results.push_back({"d" + parameter_label(spec, e, p), ResultKind::kParameterGradient,
                         gradients[e][p], terms});
    }
  }
}

std::string parameter_label(const Spec& spec, std::size_t encoding, std::size_t parameter) {
  return std::string(traits(spec.encodings[encoding]).name) + std::to_string(encoding) + "." +
         std::to_string(parameter);
}

double inner_product(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0.0;
  for (std::size_t n = 0; n < a.size(); ++n) sum += a[n] * b[n];
  return sum;
}

}  // namespace posenc::cases
