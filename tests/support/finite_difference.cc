#include "support/finite_difference.h"

#include <algorithm>
#include <cmath>

#include "support/sanitizers.h"

namespace posenc::testing {
namespace {

constexpr double kStep = 1e-5;

constexpr std::size_t kStride = kSanitized ? 5 : 1;  // through the entries of a large tensor
constexpr std::size_t kLarge = 16;

struct Differences {
  double central;
  double gap;  // one-sided differences apart: step times the second derivative
};

Differences differences(double& x, double step, double middle,
                        const std::function<double()>& loss) {
  const double start = x;
  x = start + step;
  const double above = loss();
  x = start - step;
  const double below = loss();
  x = start;
  return {(above - below) / (2.0 * step), (above - 2.0 * middle + below) / step};
}

bool close(double a, double b, const GradientTolerance& tolerance = kFloat64Gradient) {
  return std::abs(a - b) <=
         tolerance.absolute + tolerance.relative * std::max(std::abs(a), std::abs(b));
}

}  // namespace

void compare_gradient(const std::string& name, std::vector<double>& values,
                      const std::vector<double>& gradient, const std::function<double()>& loss,
                      GradientReport& report, const GradientTolerance& tolerance) {
  ASSERT_EQ(values.size(), gradient.size()) << name;
  const double middle = loss();
  const std::size_t stride = values.size() > kLarge ? kStride : 1;
  for (std::size_t n = 0; n < values.size(); n += stride) {
    ++report.checked;
    const Differences whole = differences(values[n], kStep, middle, loss);
    if (close(whole.central, gradient[n], tolerance)) continue;
    const Differences half = differences(values[n], 0.5 * kStep, middle, loss);
    // Without the error of second order in the step, which far positions make large.
    const double refined = (4.0 * half.central - whole.central) / 3.0;
    if (close(refined, gradient[n], tolerance)) continue;
    if (!close(whole.central, half.central) || !close(whole.gap, 2.0 * half.gap)) {
      ++report.kinks;
      continue;
    }
    if (report.wrong++ > 0) continue;
    report.first_wrong = name + "[" + std::to_string(n) + "] is " + std::to_string(gradient[n]) +
                         " but differences give " + std::to_string(refined);
  }
}

::testing::AssertionResult gradients_agree(const GradientReport& report) {
  if (report.checked == 0) return ::testing::AssertionFailure() << "nothing was checked";
  if (report.wrong > 0) {
    return ::testing::AssertionFailure() << report.wrong << " of " << report.checked
                                         << " wrong, the first: " << report.first_wrong;
  }
  if (report.kinks > std::max(1, report.checked / 100)) {
    return ::testing::AssertionFailure()
           << report.kinks << " kinks in " << report.checked << " entries: choose another seed";
  }
  return ::testing::AssertionSuccess();
}

}  // namespace posenc::testing
