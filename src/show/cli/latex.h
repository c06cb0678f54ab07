// A comparison as tables of LaTeX, for papers.
#pragma once

#include <string>

#include "report/compare.h"

namespace posenc::cli {

// A table of booktabs per task and axis: a row per encoding, figures with their intervals.
std::string latex_tables(const report::Comparison& comparison);

}  // namespace posenc::cli
