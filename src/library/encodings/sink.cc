#include "posenc/encodings/sink.h"

#include "encodings/shape_checks.h"

namespace posenc {

void validate(const Sink& /*config*/, const ModelShape& shape) {
  require_positive("sink", "heads", shape.heads);
}

std::vector<ParameterInfo> parameters(const Sink& config, const ModelShape& shape) {
  return {
      {"logit", {shape.heads}, {.kind = Init::Kind::kConstant, .a = config.init, .values = {}}}};
}

}  // namespace posenc
