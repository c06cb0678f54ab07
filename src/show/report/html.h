// A comparison as one HTML file that needs nothing else: no network, no other file.
//
// Everything in it comes from run directories; the same runs give the same bytes.
#pragma once

#include <string>
#include <vector>

#include "report/compare.h"

namespace posenc::report {

struct ReportInput {
  std::vector<Run> runs;  // find_runs()
  CompareOptions compare;
  std::string title;    // else what was compared
  std::string command;  // that made the page, for its foot; may be empty
};

std::string html_report(const ReportInput& input);

}  // namespace posenc::report
