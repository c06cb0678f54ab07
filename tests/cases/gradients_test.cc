// The kernels' gradients against central differences of the float64 reference's forward: no gradient
// formula of the reference stands between them.
#include <gtest/gtest.h>

#include <algorithm>

#include "cases/problem.h"
#include "cases/table.h"
#include "support/finite_difference.h"

namespace posenc::cases {
namespace {

std::vector<double> gradient_of(const std::vector<Result>& results, const std::string& name) {
  const auto found = std::find_if(results.begin(), results.end(),
                                  [&](const Result& r) { return r.name == "d" + name; });
  if (found == results.end()) ADD_FAILURE() << "no gradient of " << name;
  return found == results.end() ? std::vector<double>{} : found->values;
}

TEST(CaseGradients, KernelsMatchDifferencesOfTheReference) {
  for (const Case& c : differentiated_cases()) {
    SCOPED_TRACE(name_of(c));
    const auto problem = make_problem(c);
    problem->forward();
    problem->backward();
    const std::vector<Result> results = problem->results(true);
    testing::GradientReport report;
    for (const Variable& variable : problem->variables()) {
      testing::compare_gradient(
          variable.name, *variable.values, gradient_of(results, variable.name),
          [&] { return problem->loss(); }, report, testing::kFloat32Gradient);
    }
    EXPECT_TRUE(testing::gradients_agree(report));
  }
}

}  // namespace
}  // namespace posenc::cases
