#include "torch/call_capability.h"

#include "torch/composed/paths.h"

namespace posenc::ops {

Capability call_capability(const std::string& spec, const AttentionShapes& shapes, bool cuda,
                           at::ScalarType type) {
  if (cuda) {
    const auto prepared = prepare(spec, {.head_dim = shapes.head_dim, .heads = shapes.heads},
                                  shapes.kv_heads, shapes.keys);
    return cuda_capability(prepared->plan.terms(),
                           {.numbers = cuda_numbers(type),
                            .head_dim = shapes.head_dim,
                            .batch = shapes.batch,
                            .queries = shapes.queries,
                            .keys = shapes.keys,
                            .explicit_positions = shapes.explicit_positions});
  }
  if (type != at::kDouble) return capability(parse_any_spec(spec), shapes);
  const Capability::Pass exact{AttentionPath::kReference, "float64", -1};
  return {.forward = exact, .backward = exact, .terms = "", .device = ""};
}

void warn_if_slow(const std::string& spec, const at::Tensor& q, const at::Tensor& k,
                  bool explicit_positions) {
  const std::string slow = slow_path(spec, q, k, explicit_positions);
  if (!slow.empty()) TORCH_WARN(slow);
}

}  // namespace posenc::ops
