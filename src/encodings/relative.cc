#include "posenc/encodings/relative.h"

#include <algorithm>

#include "encodings/shape_checks.h"

namespace posenc {
namespace {

std::int64_t entries(const Relative& config) {
  return config.bidirectional ? 2 * config.max_distance + 1 : config.max_distance + 1;
}

std::size_t entry(const Relative& config, std::int64_t head, std::int64_t i, std::int64_t j) {
  const std::int64_t lowest = config.bidirectional ? -config.max_distance : 0;
  const std::int64_t clipped = std::clamp(i - j, lowest, config.max_distance);
  return static_cast<std::size_t>(head * entries(config) + clipped - lowest);
}

}  // namespace

void validate(const Relative& /*config*/, const ModelShape& shape) {
  require_positive("relative", "heads", shape.heads);
}

std::vector<ParameterInfo> parameters(const Relative& config, const ModelShape& shape) {
  return {{"weight",
           {shape.heads, entries(config)},
           Init{.kind = Init::Kind::kNormal, .a = config.init_std, .b = 0, .values = {}}}};
}

double bias(const Relative& config, const Parameters& parameters, std::int64_t head, std::int64_t i,
            std::int64_t j) {
  return parameters[0][entry(config, head, i, j)];
}

void add_bias_gradient(const Relative& config, const Parameters& /*parameters*/, std::int64_t head,
                       std::int64_t i, std::int64_t j, double dbias, Parameters& gradient) {
  gradient[0][entry(config, head, i, j)] += dbias;
}

}  // namespace posenc
