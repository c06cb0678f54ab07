#include "cases/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace posenc::cases {
namespace {

// Where everything cancels, what is left is rounding of terms of this size.
double least_size(const Result& result) {
  if (result.kind == ResultKind::kParameterGradient) return result.terms;
  return result.kind == ResultKind::kGradient ? 0.1 : 1e-2;
}

double largest_finite(const Result& result) {
  double largest = least_size(result);
  for (const double x : result.values) {
    if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
  }
  return largest;
}

// Relative to the largest value, in addition to the rounding of the value itself.
double relative_tolerance(DType dtype, ResultKind kind) {
  const double unit = dtype == DType::kFloat32 ? 0.0 : rounding(dtype, 1.0);
  switch (kind) {
    case ResultKind::kValue:
    case ResultKind::kRowSum:
      return 1e-5;
    case ResultKind::kGradient:
      return 2e-5 + 3.0 * unit;
    case ResultKind::kParameterGradient:
      return 1e-4 + 120.0 * unit;
  }
  return 0.0;
}

void compare_one(DType dtype, const Result& got, const Result& want, Comparison& comparison) {
  const auto differ = [&](const std::string& text) {
    if (comparison.mismatch.empty()) comparison.mismatch = got.name + " " + text;
  };
  if (got.name != want.name) return differ("was to be " + want.name);
  if (got.values.size() != want.values.size()) {
    return differ(fmt::format("has {} values, not {}", got.values.size(), want.values.size()));
  }
  const double share = relative_tolerance(dtype, want.kind) * largest_finite(want);
  for (std::size_t i = 0; i < want.values.size(); ++i) {
    const double x = want.values[i];
    if (got.values[i] == x) continue;
    const bool stored = want.kind == ResultKind::kValue || want.kind == ResultKind::kGradient;
    const double allowed = share + (stored ? rounding(dtype, x) : 0.0);
    const double used = std::abs(got.values[i] - x) / allowed;
    if (used <= 1.0) {
      comparison.worst = std::max(comparison.worst, used);
      continue;
    }
    comparison.worst = std::isnan(used) ? HUGE_VAL : std::max(comparison.worst, used);
    differ(fmt::format("[{}] is {} but must be {} within {:.2g}", i, got.values[i], x, allowed));
  }
}

}  // namespace

Comparison compare(DType dtype, const std::vector<Result>& got, const std::vector<Result>& want) {
  Comparison comparison;
  if (got.size() != want.size()) {
    comparison.mismatch = fmt::format("{} results, not {}", got.size(), want.size());
    return comparison;
  }
  for (std::size_t n = 0; n < got.size(); ++n) {
    compare_one(dtype, got[n], want[n], comparison);
  }
  return comparison;
}

Comparison check(const Case& c, bool with_backward) {
  const auto problem = make_problem(with_backward ? away_from_kinks(c) : c);
  const std::vector<Result> want = problem->expected(with_backward);
  problem->forward();
  if (with_backward) problem->backward();
  return compare(c.dtype, problem->results(with_backward), want);
}

}  // namespace posenc::cases
