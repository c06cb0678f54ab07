// Hostile files of scores: an Error of one line, or scores that can be compared.
#include <cstddef>
#include <cstdint>

#include "core/plain_text.h"
#include "fuzz/memory_file.h"
#include "runs/scores.h"
#include "statistics/findings.h"

namespace {

using posenc::fuzz::require;
namespace runs = posenc::runs;
namespace statistics = posenc::statistics;

// One condition as three encodings of three seeds each.
void compare(const runs::ConditionTallies& tallies, runs::Region region, posenc::Metric metric) {
  statistics::ConditionScores condition{tallies.name, metric, tallies.clusters, {}};
  for (const char* name : {"a", "b", "none"}) {
    const statistics::RunScores run{0, runs::row_sums(tallies.tallies(region), metric), false};
    condition.encodings.push_back({name, {run, run, run}});
  }
  const statistics::TestedTable table({condition});
  require(!table.backed_best(0));
  for (const statistics::Finding& finding : statistics::findings(table))
    require(!finding.text.empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const posenc::fuzz::MemoryFile file({reinterpret_cast<const char*>(data), size});
  try {
    const runs::RunTallies scores = runs::read_scores(file.path());
    for (const runs::ConditionTallies& condition : scores.conditions) {
      for (const runs::Region region : runs::kRegions) {
        compare(condition, region, posenc::Metric::kAccuracy);
        compare(condition, region, posenc::Metric::kBitsPerByte);
      }
    }
  } catch (const posenc::Error& error) {
    require(posenc::one_line(error.what()) == error.what());
  }
  return 0;
}
