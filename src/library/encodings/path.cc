#include "posenc/encodings/path.h"

#include "encodings/shape_checks.h"

namespace posenc {

void validate(const Path& /*config*/, const ModelShape& shape) {
  require_positive("path", "heads", shape.heads);
  require_positive("path", "head_dim", shape.head_dim);
}

std::vector<ParameterInfo> parameters(const Path& /*config*/, const ModelShape& /*shape*/) {
  return {};
}

std::vector<InputInfo> token_inputs(const Path& /*config*/, const ModelShape& shape) {
  const InputInfo::Readers readers{.other_queries = false, .steps = true};
  return {{.name = "w",
           .heads = InputInfo::Heads::kKey,
           .channels = shape.head_dim,
           .float32 = false,
           .projection = "path_w_proj",
           .activation = InputInfo::Activation::kUnitNorm,
           .readers = readers},
          {.name = "b",
           .heads = InputInfo::Heads::kKey,
           .channels = 1,
           .float32 = true,
           .projection = "path_b_proj",
           .activation = InputInfo::Activation::kTwiceSigmoid,
           .readers = readers}};
}

}  // namespace posenc
