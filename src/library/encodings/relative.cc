#include "posenc/encodings/relative.h"

#include "encodings/shape_checks.h"

namespace posenc {
void validate(const Relative& /*config*/, const ModelShape& shape) {
  require_positive("relative", "heads", shape.heads);
}

std::vector<ParameterInfo> parameters(const Relative& config, const ModelShape& shape) {
  return {{"weight",
           {shape.heads, config.entries()},
           Init{.kind = Init::Kind::kNormal, .a = config.init_std, .b = 0, .values = {}}}};
}

}  // namespace posenc
