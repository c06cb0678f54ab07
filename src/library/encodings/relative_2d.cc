#include "posenc/encodings/relative_2d.h"

#include "encodings/shape_checks.h"
#include "encodings/tables.h"

namespace posenc {

void validate(const Relative2d& /*config*/, const ModelShape& shape) {
  require_positive("relative_2d", "heads", shape.heads);
}

std::vector<ParameterInfo> parameters(const Relative2d& config, const ModelShape& shape) {
  if (!config.separable) {
    return {normal_table("weight", {shape.heads, config.row_entries(), config.column_entries()},
                         config.init_std)};
  }
  return {normal_table("rows", {shape.heads, config.row_entries()}, config.init_std),
          normal_table("columns", {shape.heads, config.column_entries()}, config.init_std)};
}

}  // namespace posenc
