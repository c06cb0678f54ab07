// An exact rank test of two groups (Wilcoxon, Mann and Whitney), for values without a meaningful mean.
#pragma once

#include <span>

namespace posenc::statistics {

// Two-sided p-value: the share of all ways to divide the values into groups of these sizes whose rank sum
// is at least as far from its mean. Equal values share the mean of their ranks, infinities are the largest
// and smallest values. 1 where a group is empty. Cost: (n_a + n_b)^2 n_a n_b.
double rank_test(std::span<const double> a, std::span<const double> b);

// Of all pairs, the share in which a's value is the greater one; equal values count half.
double share_of_greater(std::span<const double> a, std::span<const double> b);

}  // namespace posenc::statistics
