#include "posenc/encodings/fire.h"

#include <cmath>
#include <cstdlib>

#include "encodings/shape_checks.h"
#include "encodings/tables.h"

namespace posenc {
namespace {

enum Index : std::size_t { kC, kThresholdScale, kW1, kB1, kW2, kB2 };
using formulas::Dual;

double relu(double x) { return x <= 0.0 ? 0.0 : x; }  // NaN stays NaN

// The network's input.
template <class Real>
Real input(const Fire& config, const Real& c, const Real& threshold_scale, std::int64_t i,
           std::int64_t j) {
  const auto place = static_cast<double>(i);
  const auto distance = static_cast<double>(std::abs(i - j));
  return Fire::psi(c, distance) * Fire::row_scale(config.init_threshold, c, threshold_scale, place);
}
double input(const Fire& config, const Parameters& parameters, std::int64_t i, std::int64_t j) {
  return input(config, parameters[kC][0], parameters[kThresholdScale][0], i, j);
}

void add_input_gradient(const Fire& config, const Parameters& parameters, std::int64_t i,
                        std::int64_t j, double du, Parameters& gradient) {
  const double c = parameters[kC][0];
  const double scale = parameters[kThresholdScale][0];
  gradient[kC][0] += du * input(config, Dual<double>{c, 1.0}, Dual<double>{scale, 0.0}, i, j).slope;
  gradient[kThresholdScale][0] +=
      du * input(config, Dual<double>{c, 0.0}, Dual<double>{scale, 1.0}, i, j).slope;
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
          table_parameter("w2", {shape.heads, config.width}, uniform(hidden_bound)),
          table_parameter("b2", {shape.heads}, uniform(hidden_bound))};
}

double bias(const Fire& config, const Parameters& parameters, std::int64_t head, std::int64_t i,
            std::int64_t j) {
  const double u = input(config, parameters, i, j);
  const auto width = static_cast<std::size_t>(config.width);
  const std::size_t row = static_cast<std::size_t>(head) * width;
  double result = parameters[kB2][head];
  for (std::size_t n = 0; n < width; ++n) {
    result += parameters[kW2][row + n] * relu(parameters[kW1][n] * u + parameters[kB1][n]);
  }
  return result;
}

void add_bias_gradient(const Fire& config, const Parameters& parameters, std::int64_t head,
                       std::int64_t i, std::int64_t j, double dbias, Parameters& gradient) {
  const double u = input(config, parameters, i, j);
  const auto width = static_cast<std::size_t>(config.width);
  const std::size_t row = static_cast<std::size_t>(head) * width;
  double du = 0.0;
  gradient[kB2][head] += dbias;
  for (std::size_t n = 0; n < width; ++n) {
    const double hidden = relu(parameters[kW1][n] * u + parameters[kB1][n]);
    gradient[kW2][row + n] += dbias * hidden;
    if (hidden == 0.0) continue;
    const double dhidden = dbias * parameters[kW2][row + n];
    gradient[kW1][n] += dhidden * u;
    gradient[kB1][n] += dhidden;
    du += dhidden * parameters[kW1][n];
  }
  add_input_gradient(config, parameters, i, j, du, gradient);
}

}  // namespace posenc
