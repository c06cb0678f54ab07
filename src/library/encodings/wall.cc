#include "posenc/encodings/wall.h"

#include <fmt/format.h>

#include "encodings/shape_checks.h"
#include "posenc/core/error.h"

namespace posenc {

void validate(const Wall& /*config*/, const ModelShape& shape) {
  require_positive("wall", "heads", shape.heads);
  require_positive("wall", "head_dim", shape.head_dim);
}

std::vector<ParameterInfo> parameters(const Wall& /*config*/, const ModelShape& /*shape*/) {
  return {};
}

std::vector<InputInfo> token_inputs(const Wall& /*config*/, const ModelShape& shape) {
  return {{.name = "log_f",
           .heads = InputInfo::Heads::kKey,
           .channels = shape.head_dim,
           .float32 = true,
           .projection = "wall_proj",
           .activation = InputInfo::Activation::kLogSigmoid,
           .shift = 8.0,
           .readers = {.other_queries = false, .steps = true}}};
}

}  // namespace posenc
