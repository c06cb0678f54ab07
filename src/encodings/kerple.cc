#include "posenc/encodings/kerple.h"

#include "encodings/distance_bias.h"
#include "encodings/shape_checks.h"

namespace posenc {
void validate(const Kerple& /*config*/, const ModelShape& shape) {
  require_positive("kerple", "heads", shape.heads);
}

std::vector<ParameterInfo> parameters(const Kerple& /*config*/, const ModelShape& shape) {
  constexpr double smallest = formulas::DistanceFormula<Kerple>::kSmallest;
  const auto uniform = [](double high) {
    return Init{.kind = Init::Kind::kUniform, .a = smallest, .b = high, .values = {}};
  };
  return {{"p", {shape.heads}, uniform(2.0)}, {"a", {shape.heads}, uniform(1.0)}};
}

double bias(const Kerple& config, const Parameters& parameters, std::int64_t head, std::int64_t i,
            std::int64_t j) {
  return distance_bias(config, parameters, head, i - j);
}

void add_bias_gradient(const Kerple& config, const Parameters& parameters, std::int64_t head,
                       std::int64_t i, std::int64_t j, double dbias, Parameters& gradient) {
  add_distance_gradient(config, parameters, head, i - j, dbias, gradient);
}

}  // namespace posenc
