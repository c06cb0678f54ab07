#include "kernels/cuda/paths.h"

#include "kernels/cuda/decode.h"

namespace posenc {
namespace {

constexpr std::int64_t kMostChannels = 256;
constexpr std::int64_t kMostExactChannels = 128;

std::string type_obstacle(const CudaProblem& problem) {
  if (problem.numbers == CudaNumbers::kFloat64) return "float64";
  if (problem.numbers != CudaNumbers::kExactFloat32 || problem.head_dim <= kMostExactChannels) {
    return "";
  }
  return "exact float32 has kernels up to head_dim 128; "
         "torch.set_float32_matmul_precision(\"high\") allows sums of two bfloat16 numbers";
}

std::string relative_obstacle(const Terms& terms, const CudaProblem& problem) {
  const RelativeQuery* relative = terms.config<RelativeQuery>(terms.relative_query);
  if (relative == nullptr) return "";
  if (relative->vectors) return "no kernel for relative_query with vectors";
  if (relative->buckets != RelativeQuery::Buckets::kNone) {
    return "no kernel for relative_query with buckets";
  }
  if (terms.cope) return "no kernel for relative_query with cope";
  if (terms.softcap) return "no kernel for relative_query with softcap";
  if (problem.explicit_positions) return "relative_query with explicit positions";
  // Vectors u lie in the same tiles as queries.
  const std::int64_t most = problem.head_dim <= 64 ? 64 : problem.head_dim <= 128 ? 128 : 256;
  return relative->channels(problem.head_dim) > most ? "relative_query with a rank above head_dim"
                                                     : "";
}

// What the decoding kernels know, too.
bool is_tuned(const Terms& terms, const CudaProblem& problem) {
  if (problem.numbers != CudaNumbers::kHalf || terms.fire || terms.token) return false;
  if (terms.breaks_sticks || terms.relative_query) return false;
  const Cope* cope = terms.config<Cope>(terms.cope);
  return cope == nullptr ||
         (cope->gate_source == Cope::GateSource::kKey && cope->npos_max <= cuda::kTunedPositions);
}

}  // namespace

int float_parts(const Terms& terms, const CudaProblem& problem) {
  const bool counts = terms.cope && problem.head_dim <= kMostExactChannels;
  return counts || problem.numbers == CudaNumbers::kExactFloat32 ? 3 : 2;
}

// The bound of fox.h speaks of scores without other terms.
bool prunes_keys(const Terms& terms) {
  const auto* fox = terms.config<Fox>(terms.token);
  const bool others = !terms.biases.empty() || terms.fire || terms.cope || terms.relative_query ||
                      terms.softcap || terms.breaks_sticks;
  return fox != nullptr && fox->prune && !others;
}

std::string cuda_obstacle(const Terms& terms, const CudaProblem& problem) {
  if (!terms.obstacle.empty()) return terms.obstacle;
  if (std::string type = type_obstacle(problem); !type.empty()) return type;
  if (terms.chain) return "no kernel for " + joined_names(terms, {*terms.chain});
  if (!terms.pairs
           .empty()) {  // with its fields: fox has a kernel, fox(bidirectional=true) has none
    return "no kernel for " + to_text(Spec{{terms.spec.encodings[terms.pairs.front()]}});
  }
  if (terms.breaks_sticks && terms.softcap) return "no kernel for softcap with stick_breaking";
  if (terms.rotates_values) return "no kernel for rotated values";
  const Cope* cope = terms.config<Cope>(terms.cope);
  if (std::string relative = relative_obstacle(terms, problem); !relative.empty()) return relative;
  if (cope != nullptr && cope->gate_source == Cope::GateSource::kOpen)
    return "cope with open gates";
  if (cope != nullptr && terms.token) {
    return "no kernel for cope with " + joined_names(terms, {*terms.token});
  }
  if (problem.head_dim % 8 != 0 || problem.head_dim > kMostChannels) {
    return "head_dim is not a multiple of 8 up to 256";
  }
  if (problem.value_dim > problem.head_dim) return "values with more channels than queries";
  if ((!terms.biases.empty() || terms.fire) && problem.explicit_positions) {
    return "biases with explicit positions";
  }
  return "";
}

std::string cuda_backward_obstacle(const Terms& terms, const CudaProblem& problem) {
  if (std::string forward = cuda_obstacle(terms, problem); !forward.empty()) return forward;
  const Cope* cope = terms.config<Cope>(terms.cope);
  const bool own_gates = cope != nullptr && has_gate_vectors(*cope);
  const bool float32 = problem.numbers != CudaNumbers::kHalf;
  if (terms.relative_query && float32 && problem.head_dim > kMostExactChannels) {
    return "float32 with relative_query has kernels up to head_dim 128";
  }
  if (cuda::backward_fits(static_cast<int>(problem.head_dim), float32, own_gates)) return "";
  return "float32 with gates of other keys has kernels up to head_dim 128";
}

namespace {

std::string terms_of(const Terms& terms, const CudaProblem& problem) {
  std::string text;
  const auto add = [&](const std::string& term) { text += (text.empty() ? "" : ", ") + term; };
  if (problem.numbers != CudaNumbers::kHalf) {
    const char* parts = float_parts(terms, problem) == 3 ? "three" : "two";
    add(std::string("float32 as sums of ") + parts + " bfloat16");
  }
  if (problem.value_dim != 0 && problem.value_dim < problem.head_dim) {
    add("values padded to the channels of queries");
  }
  if (!terms.rotary.empty()) add(joined_names(terms, terms.rotary) + " in a pass of its own");
  if (!terms.temperatures.empty()) add("temperature");
  if (!terms.biases.empty()) add("toeplitz table (" + joined_names(terms, terms.biases) + ")");
  if (terms.fire) add("fire");
  if (terms.cope) add("cope");
  if (terms.relative_query) add("queries times distances");
  if (terms.token) add("a term per token (" + joined_names(terms, {*terms.token}) + ")");
  if (prunes_keys(terms)) add("faded keys left out");
  if (terms.softcap) add("softcap");
  if (!terms.sinks.empty()) add("sink");
  if (terms.breaks_sticks) add("stick-breaking");
  return text;
}

// Scores and weights; with their gradients in the backward.
Capability::Pass composed(const Terms& terms, const CudaProblem& problem, std::string why,
                          int tensors) {
  const std::int64_t number = problem.numbers == CudaNumbers::kFloat64 ? 8 : 4;
  return {AttentionPath::kComposed, std::move(why),
          tensors * number * problem.batch * terms.shape.heads * problem.queries * problem.keys};
}

}  // namespace

Capability cuda_capability(const Terms& terms, const CudaProblem& problem) {
  Capability found;
  found.device = "cuda";
  if (std::string obstacle = cuda_obstacle(terms, problem); !obstacle.empty()) {
    found.forward = composed(terms, problem, obstacle, 2);
    found.backward = composed(terms, problem, obstacle, 4);
    return found;
  }
  const bool decodes = is_tuned(terms, problem) && problem.queries <= cuda::kMostDecodeQueries;
  if (decodes) found.forward.path = AttentionPath::kDecode;
  found.terms = terms_of(terms, problem);
  if (std::string obstacle = cuda_backward_obstacle(terms, problem); !obstacle.empty()) {
    found.backward = composed(terms, problem, obstacle, 4);
  }
  return found;
}

}  // namespace posenc
