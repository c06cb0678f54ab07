#include "posenc/encodings/relative.h"

#include "encodings/distance_bias.h"
#include "encodings/shape_checks.h"

namespace posenc {
void validate(const Relative& /*config*/, const ModelShape& shape) {
  require_positive("relative", "heads", shape.heads);
}

std::vector<ParameterInfo> parameters(const Relative& config, const ModelShape& shape) {
  return {{"weight",
           {shape.heads, formulas::DistanceFormula<Relative>{config}.entries()},
           Init{.kind = Init::Kind::kNormal, .a = config.init_std, .b = 0, .values = {}}}};
}

double bias(const Relative& config, const Parameters& parameters, std::int64_t head, std::int64_t i,
            std::int64_t j) {
  return distance_bias(config, parameters, head, i - j);
}

void add_bias_gradient(const Relative& config, const Parameters& parameters, std::int64_t head,
                       std::int64_t i, std::int64_t j, double dbias, Parameters& gradient) {
  add_distance_gradient(config, parameters, head, i - j, dbias, gradient);
}

}  // namespace posenc
