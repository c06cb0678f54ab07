// Runs made here against the committed ones: do they say the same?
#pragma once

#include <string>
#include <vector>

#include "report/compare.h"

namespace posenc::report {

struct Verdict {
  std::string row;        // "rope, model.layers=2", "rope, yarn"
  std::string condition;  // "longer 2x (96)"; empty where the row is only on one side
  std::string here;       // "98.2 [97.1, 99.0]"
  std::string there;
  std::string words;  // "agrees within the intervals", "differs by 12.3 points", "only there"
};

// One verdict for each encoding, schedule, variant and condition. Devices do not count: a run on a GPU is held
// against one on a CPU.
std::vector<Verdict> verdicts(const std::vector<Run>& here, const std::vector<Run>& there);

}  // namespace posenc::report
