#include "posenc/encodings/relative_2d.h"

#include "encodings/shape_checks.h"

namespace posenc {

void validate(const Relative2d& /*config*/, const ModelShape& shape) {
  require_positive("relative_2d", "heads", shape.heads);
}

std::vector<ParameterInfo> parameters(const Relative2d& config, const ModelShape& shape) {
  const Init init{.kind = Init::Kind::kNormal, .a = config.init_std, .b = 0, .values = {}};
  if (!config.separable) {
    return {{"weight", {shape.heads, config.row_entries(), config.column_entries()}, init}};
  }
  return {{"rows", {shape.heads, config.row_entries()}, init},
          {"columns", {shape.heads, config.column_entries()}, init}};
}

}  // namespace posenc
