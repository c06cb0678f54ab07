// Whether training speeds say something about each other. Runs that share a GPU slow each other down, by how
// much depends on what the others do; runs that share a CPU each have their own cores.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "report/collect.h"

namespace posenc::report {

// Runs on a GPU that do not say how many ran at the same time and whose time overlaps that of another.
std::set<const Run*> overlapping_runs(const std::vector<Run>& runs);

// Why the speeds of these runs are not compared, as a note; empty where nothing speaks against it.
// `overlapping` is what overlapping_runs found.
std::string sharing_note(const std::vector<const Run*>& runs,
                         const std::set<const Run*>& overlapping);

}  // namespace posenc::report
