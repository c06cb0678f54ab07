#include "torch/call_capability.h"

namespace posenc::ops {

Capability call_capability(const std::string& spec, const AttentionShapes& shapes, bool cuda,
                           at::ScalarType type) {
  require_attention_part("attention", parse_any_spec(spec));
  TORCH_CHECK(!cuda,
              "[explain] device must be cpu but got cuda, which the build for PyTorch's stable ABI "
              "lacks; build posenc for "
              "this torch: pip install --no-build-isolation . in its source tree");
  if (type != at::kDouble) return capability(parse_any_spec(spec), shapes);
  const Capability::Pass exact{AttentionPath::kReference, "float64", -1};
  return {.forward = exact, .backward = exact, .terms = "", .device = ""};
}

}  // namespace posenc::ops
