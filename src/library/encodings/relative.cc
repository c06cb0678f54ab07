#include "posenc/encodings/relative.h"

#include "encodings/shape_checks.h"
#include "encodings/tables.h"

namespace posenc {
void validate(const Relative& /*config*/, const ModelShape& shape) {
  require_positive("relative", "heads", shape.heads);
}

std::vector<ParameterInfo> parameters(const Relative& config, const ModelShape& shape) {
  return {normal_table("weight", {shape.heads, config.entries()}, config.init_std)};
}

}  // namespace posenc
