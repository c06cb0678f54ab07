#include "torch/call_capability.h"

#include "torch/composed/paths.h"

namespace posenc::ops {
namespace {

// Pages in a contiguous copy, which counts as memory of the forward.
void gather(const AttentionShapes& shapes, at::ScalarType type, Capability& found) {
  const std::int64_t rows = shapes.batch * shapes.kv_heads * shapes.keys;
  const auto size = static_cast<std::int64_t>(c10::elementSize(type));
  found.terms += found.terms.empty() ? "pages gathered first" : ", pages gathered first";
  found.forward.bytes =
      std::max<std::int64_t>(found.forward.bytes, 0) + 2 * rows * shapes.head_dim * size;
  found.has_backward = false;
  found.backward = {};
}

}  // namespace

Capability call_capability(const std::string& spec, const AttentionShapes& shapes, bool cuda,
                           at::ScalarType type) {
  if (cuda) {
    const auto prepared = prepare(spec, {.head_dim = shapes.head_dim, .heads = shapes.heads},
                                  shapes.kv_heads, shapes.keys);
    Capability found =
        cuda_capability(prepared->plan.terms(), {.numbers = cuda_numbers(type),
                                                 .head_dim = shapes.head_dim,
                                                 .batch = shapes.batch,
                                                 .queries = shapes.queries,
                                                 .keys = shapes.keys,
                                                 .explicit_positions = shapes.explicit_positions});
    if (shapes.paged) gather(shapes, type, found);
    return found;
  }
  if (type != at::kDouble) return capability(parse_any_spec(spec), shapes);
  const Capability::Pass exact{AttentionPath::kReference, "float64", -1};
  Capability found{.forward = exact, .backward = exact, .terms = "", .device = ""};
  if (shapes.paged) gather(shapes, type, found);
  return found;
}

void warn_if_slow(const std::string& spec, const at::Tensor& q, const at::Tensor& k,
                  bool explicit_positions) {
  const std::string slow = slow_path(spec, q, k, explicit_positions);
  if (!slow.empty()) TORCH_WARN(slow);
}

}  // namespace posenc::ops
