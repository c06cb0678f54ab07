#include "torch/call_capability.h"

#include "torch/composed/paths.h"

namespace posenc::ops {
namespace {

void add_term(Capability& found, const char* term) {
  found.terms += (found.terms.empty() ? "" : ", ") + std::string(term);
}

std::int64_t width_of_values(const AttentionShapes& shapes) {
  return shapes.value_dim == 0 ? shapes.head_dim : shapes.value_dim;
}

// Pages in a contiguous copy, which counts as memory of the forward.
void gather(const AttentionShapes& shapes, at::ScalarType type, Capability& found) {
  const std::int64_t rows = shapes.batch * shapes.kv_heads * shapes.keys;
  const auto size = static_cast<std::int64_t>(c10::elementSize(type));
  found.forward.bytes = std::max<std::int64_t>(found.forward.bytes, 0) +
                        rows * (shapes.head_dim + width_of_values(shapes)) * size;
}

void add_pages(const AttentionShapes& shapes, at::ScalarType type, bool rotates,
               Capability& found) {
  found.has_backward = false;
  found.backward = {};
  const bool kernel = found.device == "cuda" && found.forward.path == AttentionPath::kDecode &&
                      width_of_values(shapes) == shapes.head_dim;
  if (kernel && !rotates) return add_term(found, "pages read in place");
  add_term(found, kernel ? "pages of rotated keys read in place, others gathered first"
                         : "pages gathered first");
  gather(shapes, type, found);
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
                                                 .value_dim = shapes.value_dim,
                                                 .batch = shapes.batch,
                                                 .queries = shapes.queries,
                                                 .keys = shapes.keys,
                                                 .explicit_positions = shapes.explicit_positions});
    const bool rotates = !prepared->plan.terms().rotary.empty();
    if (shapes.paged) add_pages(shapes, type, rotates, found);
    return found;
  }
  if (type != at::kDouble) return capability(parse_any_spec(spec), shapes);
  const Capability::Pass exact{AttentionPath::kReference, "float64", -1};
  Capability found{.forward = exact, .backward = exact, .terms = "", .device = ""};
  if (shapes.paged) add_pages(shapes, type, false, found);
  return found;
}

void warn_if_slow(const std::string& spec, const at::Tensor& q, const at::Tensor& k,
                  const at::Tensor& v, bool explicit_positions) {
  const std::string slow = slow_path(spec, q, k, v, explicit_positions);
  if (!slow.empty()) TORCH_WARN(slow);
}

}  // namespace posenc::ops
