// Gradients against central differences, with kinks told apart from mistakes.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace posenc::testing {

// A tally over many entries.
struct GradientReport {
  int checked = 0;
  int kinks = 0;  // entries that no difference can judge: the loss bends within the step
  int wrong = 0;
  std::string first_wrong;
};

// What rounding alone may do to a gradient.
struct GradientTolerance {
  double relative;
  double absolute;
};
// Rounding of a loss of order ten, divided by the step.
inline constexpr GradientTolerance kFloat64Gradient{1e-6, 2e-9};
// Gradients that kernels computed in float32, entries of order one.
inline constexpr GradientTolerance kFloat32Gradient{2e-5, 2e-5};

// Compares gradient[n] with the central difference of loss() in values[n], which is moved and put
// back. An entry that disagrees is called a kink only where the loss itself shows one: halving the
// step changes the central difference, or fails to halve the gap between the one-sided ones. A
// wrong gradient of a smooth loss shows neither.
void compare_gradient(const std::string& name, std::vector<double>& values,
                      const std::vector<double>& gradient, const std::function<double()>& loss,
                      GradientReport& report,
                      const GradientTolerance& tolerance = kFloat64Gradient);

// Passes where nothing is wrong and kinks are at most one entry in a hundred (and never most of a
// small check).
::testing::AssertionResult gradients_agree(const GradientReport& report);

}  // namespace posenc::testing
