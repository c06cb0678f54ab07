// The figures of an entry: one cell per condition, seeds taken together.
#pragma once

#include <vector>

#include "report/group.h"

namespace posenc::report {

// In the order of the files.
std::vector<Cell> make_cells(const SeedGroup& group, Metric metric, bool row_metric);

// Of each axis and schedule; nothing for metrics that are no share of answers.
std::vector<EffectiveLength> effective_lengths(const SeedGroup& group,
                                               const std::vector<Cell>& cells, Metric metric,
                                               double threshold);

}  // namespace posenc::report
