#include "posenc/encodings/temperature.h"

#include "encodings/shape_checks.h"

namespace posenc {

void validate(const Temperature& /*config*/, const ModelShape& shape) {
  require_positive("temperature", "heads", shape.heads);
}

std::vector<ParameterInfo> parameters(const Temperature& config, const ModelShape& shape) {
  if (!config.trained()) return {};
  return {
      {"scale", {shape.heads}, {.kind = Init::Kind::kConstant, .a = config.init, .values = {}}}};
}

}  // namespace posenc
