#include "posenc/encodings/kerple.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "encodings/score_formulas.h"
#include "encodings/shape_checks.h"

namespace posenc {
namespace {

constexpr double kSmallest = formulas::kKerpleSmallest;
constexpr double kLargestPower = formulas::kKerpleLargestPower;

// The value that the formula reads, and whether a change of the parameter changes it.
struct Clamped {
  double value;
  bool moves;
};

Clamped clamp_p(const Kerple& config, double raw) {
  const double largest = config.kernel == Kerple::Kernel::kPower ? kLargestPower : HUGE_VAL;
  // A NaN is neither below nor above, and passes through with its gradient.
  return {std::clamp(raw, kSmallest, largest), !(raw <= kSmallest) && !(raw >= largest)};
}

Clamped clamp_a(double raw) { return {std::max(raw, kSmallest), !(raw <= kSmallest)}; }

}  // namespace

void validate(const Kerple& /*config*/, const ModelShape& shape) {
  require_positive("kerple", "heads", shape.heads);
}

std::vector<ParameterInfo> parameters(const Kerple& /*config*/, const ModelShape& shape) {
  const auto uniform = [](double high) {
    return Init{.kind = Init::Kind::kUniform, .a = kSmallest, .b = high, .values = {}};
  };
  return {{"p", {shape.heads}, uniform(2.0)}, {"a", {shape.heads}, uniform(1.0)}};
}

double bias(const Kerple& config, const Parameters& parameters, std::int64_t head, std::int64_t i,
            std::int64_t j) {
  const double p = clamp_p(config, parameters[0][static_cast<std::size_t>(head)]).value;
  const double a = clamp_a(parameters[1][static_cast<std::size_t>(head)]).value;
  const auto distance = static_cast<double>(std::abs(i - j));
  if (config.kernel == Kerple::Kernel::kLog) return formulas::kerple_log(p, a, distance);
  return formulas::kerple_power(p, a, distance);
}

void add_bias_gradient(const Kerple& config, const Parameters& parameters, std::int64_t head,
                       std::int64_t i, std::int64_t j, double dbias, Parameters& gradient) {
  const auto h = static_cast<std::size_t>(head);
  const Clamped p = clamp_p(config, parameters[0][h]);
  const Clamped a = clamp_a(parameters[1][h]);
  const auto distance = static_cast<double>(std::abs(i - j));
  double dp = 0.0;
  double da = 0.0;
  if (config.kernel == Kerple::Kernel::kLog) {
    dp = -std::log1p(a.value * distance);
    da = -p.value * distance / (1.0 + a.value * distance);
  } else {
    const double power = std::pow(distance, p.value);
    dp = distance == 0.0 ? 0.0 : -a.value * power * std::log(distance);
    da = -power;
  }
  if (p.moves) gradient[0][h] += dbias * dp;
  if (a.moves) gradient[1][h] += dbias * da;
}

}  // namespace posenc
