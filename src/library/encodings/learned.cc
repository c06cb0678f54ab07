#include "posenc/encodings/learned.h"

#include "encodings/shape_checks.h"
#include "encodings/tables.h"
#include "posenc/core/error.h"

namespace posenc {

void validate(const Learned& /*config*/, const ModelShape& shape) {
  require_positive("learned", "model_dim", shape.width());
}

std::vector<ParameterInfo> parameters(const Learned& config, const ModelShape& shape) {
  return {normal_table("weight", {config.max_positions, shape.width()}, config.init_std)};
}

std::span<const double> embedding(const Learned& config, const Parameters& parameters,
                                  std::int64_t position, std::int64_t model_dim) {
  if (position < 0 || position >= config.max_positions) {
    throw Error(ErrorKind::kOutOfRange,
                {.scope = "learned",
                 .key = "position",
                 .rule = "must be in [0, " + std::to_string(config.max_positions - 1) + "]",
                 .value = std::to_string(position),
                 .hint = "raise max_positions, or choose an encoding that extrapolates"});
  }
  const auto width = static_cast<std::size_t>(model_dim);
  return std::span(parameters[0]).subspan(static_cast<std::size_t>(position) * width, width);
}

}  // namespace posenc
