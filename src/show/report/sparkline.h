// A curve by position on one line of text: "99999|31000", or with block letters where they can be shown.
#pragma once

#include <string>
#include <vector>

#include "report/compare.h"

namespace posenc::report {

// Tenths of the scale as digits, or its eighths as block letters of UTF-8.
enum class CurveLetters { kDigits, kBlocks };

// The values that the lowest and the highest letter stand for.
struct CurveScale {
  double low = 0.0;
  double high = 1.0;
};

// Shares from 0 to 1, others as far as the values of the table reach.
CurveScale curve_scale(const TaskTable& table);

// One letter per bucket, and | where the trained length ends.
std::string sparkline(const std::vector<double>& values, const std::vector<PositionResult>& buckets,
                      std::int64_t trained_length, CurveScale scale, CurveLetters letters);

// Whether there are answers in two buckets of positions or more.
bool has_curve(const Cell& cell);
// The first cell of a condition beyond training that has a curve; nullptr where none has.
const Cell* first_curve(const TaskTable& table, const std::string& axis, double factor);
// Positions that the model of a cell was trained on.
std::int64_t trained_length(const Cell& cell);

}  // namespace posenc::report
