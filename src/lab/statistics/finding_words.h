// Phrases of findings.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "statistics/tested_table.h"

namespace posenc::statistics {

// The margin of a pair as a sentence goes on, positive for the better one: "by 92 points [85, 98]", or
// "in 22 of 25 pairs of runs" where failed runs leave the order alone.
std::string margin_text(const PairTest& test, const ConditionScores& condition, std::size_t pairs);

// "cope", "cope and rope", "cope, rope and none"
std::string list_text(const std::vector<std::string>& names);

// " (lower is better)" where it is, to follow a margin; else nothing.
std::string direction_text(Metric metric);

// "1 of 5 runs of rope diverged or failed; it counts as accuracy 0 %."; nothing where none did.
std::string failure_text(const EncodingScores& encoding, Metric metric);

// The largest share of trainings that may do something else without showing it in so many seeds, at 95 %.
std::string unseen_text(std::size_t seeds);

}  // namespace posenc::statistics
