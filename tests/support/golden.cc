#include "support/golden.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <stdexcept>

#include "support/paths.h"

namespace posenc::testing {
namespace {

template <class Difference>
double largest(const Row& got, const Row& want, Difference difference) {
  if (got.size() != want.size()) return std::numeric_limits<double>::infinity();
  double worst = 0.0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double here = difference(got[i], want[i]);
    if (std::isnan(here)) return std::numeric_limits<double>::infinity();
    worst = std::max(worst, here);
  }
  return worst;
}

}  // namespace

Json load_golden(const std::string& name) {
  const std::string path = std::string(kTestData) + "/golden/" + name;
  std::ifstream file(path);
  if (!file) throw std::runtime_error("no golden file " + path);
  return Json::parse(file);
}

double relative_error(double got, double want) {
  return want == 0.0 ? std::abs(got) : std::abs(got - want) / std::abs(want);
}

double largest_difference(const Row& got, const Row& want) {
  return largest(got, want, [](double a, double b) { return std::abs(a - b); });
}

double largest_relative_error(const Row& got, const Row& want) {
  return largest(got, want, relative_error);
}

}  // namespace posenc::testing
