#include "statistics/rank_test.h"

#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <vector>

#include "statistics/estimates.h"

namespace posenc::statistics {
namespace {

// Ranks times two, so that the mean of two neighbours is whole.
std::vector<std::size_t> doubled_ranks(std::span<const double> a, std::span<const double> b) {
  std::vector<double> all(a.begin(), a.end());
  all.insert(all.end(), b.begin(), b.end());
  std::vector<std::size_t> doubled;
  for (const double rank : ranks(all, false)) {
    doubled.push_back(static_cast<std::size_t>(std::lround(2.0 * rank)));
  }
  return doubled;
}

// How many choices of `size` ranks have each sum: [sum].
std::vector<double> choices_by_sum(const std::vector<std::size_t>& ranks, std::size_t size) {
  std::size_t total = 0;
  for (const std::size_t rank : ranks) total += rank;
  std::vector<std::vector<double>> choices(size + 1, std::vector<double>(total + 1, 0.0));
  choices[0][0] = 1.0;
  for (const std::size_t rank : ranks) {
    for (std::size_t taken = size; taken > 0; --taken) {
      for (std::size_t sum = total; sum >= rank; --sum) {
        choices[taken][sum] += choices[taken - 1][sum - rank];
      }
    }
  }
  return choices[size];
}

}  // namespace

double rank_test(std::span<const double> a, std::span<const double> b) {
  if (a.empty() || b.empty()) return 1.0;
  const std::vector<std::size_t> doubled = doubled_ranks(a, b);
  const std::vector<double> choices = choices_by_sum(doubled, a.size());
  const auto centre = static_cast<std::ptrdiff_t>(a.size() * (a.size() + b.size() + 1));
  const auto distance = [&](std::size_t sum) {
    return std::abs(static_cast<std::ptrdiff_t>(sum) - centre);
  };
  std::size_t observed = 0;
  for (std::size_t i = 0; i < a.size(); ++i) observed += doubled[i];
  double all = 0.0;
  double as_far = 0.0;
  for (std::size_t sum = 0; sum < choices.size(); ++sum) {
    all += choices[sum];
    if (distance(sum) >= distance(observed)) as_far += choices[sum];
  }
  return as_far / all;
}

double share_of_greater(std::span<const double> a, std::span<const double> b) {
  double greater = 0.0;
  for (const double x : a) {
    for (const double y : b) greater += x > y ? 1.0 : (x == y ? 0.5 : 0.0);
  }
  return greater / static_cast<double>(a.size() * b.size());
}

}  // namespace posenc::statistics
