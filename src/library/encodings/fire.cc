#include "posenc/encodings/fire.h"

#include <cmath>
#include <cstdlib>

#include "encodings/shape_checks.h"

namespace posenc {
namespace {

constexpr double kEpsilon = 1e-6;
enum Index : std::size_t { kC, kThresholdScale, kW1, kB1, kW2, kB2 };

double relu(double x) { return x <= 0.0 ? 0.0 : x; }  // NaN stays NaN

// The network's input, and what its gradient needs.
struct Ratio {
  double distance;
  double reach;      // max(i, L)
  double numerator;  // psi(distance)
  double denominator;
  bool threshold_rules;  // L > i, so that L has a gradient

  [[nodiscard]] double value() const { return numerator / denominator; }
};

Ratio ratio(const Fire& config, const Parameters& parameters, std::int64_t i, std::int64_t j) {
  const double c = std::abs(parameters[kC][0]);
  const double threshold = std::abs(parameters[kThresholdScale][0]) * config.init_threshold;
  const auto position = static_cast<double>(i);
  const auto distance = static_cast<double>(std::abs(i - j));
  const bool threshold_rules = !(threshold <= position);  // so does a NaN, which must show
  const double reach = threshold_rules ? threshold : position;
  return {distance, reach, std::log1p(c * distance), std::log1p(c * reach) + kEpsilon,
          threshold_rules};
}

void add_ratio_gradient(const Fire& config, const Parameters& parameters, const Ratio& r,
                        double dratio, Parameters& gradient) {
  const double c = std::abs(parameters[kC][0]);
  const double sign_c = parameters[kC][0] < 0 ? -1.0 : 1.0;
  const double dnumerator = dratio / r.denominator;
  const double ddenominator = -dratio * r.numerator / (r.denominator * r.denominator);
  gradient[kC][0] += sign_c * (dnumerator * r.distance / (1.0 + c * r.distance) +
                               ddenominator * r.reach / (1.0 + c * r.reach));
  if (r.threshold_rules) {
    const double sign = parameters[kThresholdScale][0] < 0 ? -1.0 : 1.0;
    gradient[kThresholdScale][0] +=
        sign * config.init_threshold * ddenominator * c / (1.0 + c * r.reach);
  }
}

}  // namespace

void validate(const Fire& /*config*/, const ModelShape& shape) {
  require_positive("fire", "heads", shape.heads);
}

std::vector<ParameterInfo> parameters(const Fire& config, const ModelShape& shape) {
  const auto constant = [](double a) {
    return Init{.kind = Init::Kind::kConstant, .a = a, .b = 0, .values = {}};
  };
  // Uniform in +-1/sqrt(inputs), as linear layers start everywhere.
  const auto uniform = [](double bound) {
    return Init{.kind = Init::Kind::kUniform, .a = -bound, .b = bound, .values = {}};
  };
  const double hidden_bound = 1.0 / std::sqrt(static_cast<double>(config.width));
  return {{"c", {1}, constant(config.init_c)},
          {"threshold_scale", {1}, constant(1.0)},
          {"w1", {config.width}, uniform(1.0)},
          {"b1", {config.width}, uniform(1.0)},
          {"w2", {shape.heads, config.width}, uniform(hidden_bound)},
          {"b2", {shape.heads}, uniform(hidden_bound)}};
}

double bias(const Fire& config, const Parameters& parameters, std::int64_t head, std::int64_t i,
            std::int64_t j) {
  const double u = ratio(config, parameters, i, j).value();
  const auto width = static_cast<std::size_t>(config.width);
  const std::size_t row = static_cast<std::size_t>(head) * width;
  double result = parameters[kB2][static_cast<std::size_t>(head)];
  for (std::size_t n = 0; n < width; ++n) {
    result += parameters[kW2][row + n] * relu(parameters[kW1][n] * u + parameters[kB1][n]);
  }
  return result;
}

void add_bias_gradient(const Fire& config, const Parameters& parameters, std::int64_t head,
                       std::int64_t i, std::int64_t j, double dbias, Parameters& gradient) {
  const Ratio r = ratio(config, parameters, i, j);
  const double u = r.value();
  const auto width = static_cast<std::size_t>(config.width);
  const std::size_t row = static_cast<std::size_t>(head) * width;
  double dratio = 0.0;
  gradient[kB2][static_cast<std::size_t>(head)] += dbias;
  for (std::size_t n = 0; n < width; ++n) {
    const double hidden = relu(parameters[kW1][n] * u + parameters[kB1][n]);
    gradient[kW2][row + n] += dbias * hidden;
    if (hidden == 0.0) continue;
    const double dhidden = dbias * parameters[kW2][row + n];
    gradient[kW1][n] += dhidden * u;
    gradient[kB1][n] += dhidden;
    dratio += dhidden * parameters[kW1][n];
  }
  add_ratio_gradient(config, parameters, r, dratio, gradient);
}

}  // namespace posenc
