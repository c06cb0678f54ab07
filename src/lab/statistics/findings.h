// Findings of a table of runs, as sentences. Each sentence states the result of a test.
//
//   "cope is ahead of rope at 2x by 92 points [85, 98], 5 seeds."
//   "No clear difference at 4x: nothing separates alibi, kerple and none, 5 seeds."
//   "1 of 5 runs of rope diverged or failed; it counts as accuracy 0 %."
//
// A condition has at most three sentences, however many encodings it has: the first encoding against the
// others, the others against the reference, and those with too few seeds. Intervals are for 95 % and one
// pair; "ahead" holds for the whole table (tested_table.h).
#pragma once

#include <string>
#include <vector>

#include "statistics/tested_table.h"

namespace posenc::statistics {

struct Finding {
  std::string place;  // of the condition; empty for a remark on the whole table
  std::string text;
};

struct FindingOptions {
  std::string reference = "none";  // the encoding that others are held against
};

std::vector<Finding> findings(const TestedTable& table, const FindingOptions& options = {});

}  // namespace posenc::statistics
