// Runs of several seeds, and the part of an evidence page that they make.
#pragma once

#include <algorithm>

#include "report/evidence.h"
#include "report/page_case.h"

namespace posenc::testing {

// Chance is 0.25 in domain and 0.125 on longer rows.
inline void write_seeds(const TemporaryFolder& folder, const std::string& encoding, double at_two,
                        int seeds = 3, int layers = 2) {
  for (int seed = 0; seed < seeds; ++seed) {
    const double spread = 0.01 * seed;
    write_run(
        folder / fmt::format("{}-{}-{}", encoding, layers, seed),
        {.encoding = encoding,
         .seed = seed,
         .layers = layers,
         .rows = {{"train", 1, 0.9 + spread, 0.88, 0.95},
                  {"longer", 1, 0.9, 0.88, 0.92},
                  {"longer", 2, at_two + spread, at_two - 0.02, at_two + 0.03},
                  {"longer", 4, 0.1, 0.08, 0.12},
                  {.axis = "sparse", .value = 0.7, .low = 0.6, .high = 0.8, .shifted = true}}});
  }
}

// RoPE with rows of a schedule, which exist beyond the trained length alone.
inline void write_scheduled(const TemporaryFolder& folder, double with_ntk,
                            const char* schedule = "ntk") {
  for (int seed = 0; seed < 3; ++seed) {
    const double spread = 0.01 * seed;
    CaseRun run{.encoding = "rope", .seed = seed};
    run.rows = {{.axis = "train", .value = 0.9 + spread},
                {.axis = "longer", .value = 0.9},
                {.axis = "sparse", .value = 0.7, .shifted = true}};
    for (const int factor : {2, 4}) {
      run.rows.push_back({.axis = "longer", .factor = factor, .value = 0.05});
      run.rows.push_back({.axis = "longer",
                          .factor = factor,
                          .value = with_ntk / factor + spread,
                          .schedule = schedule});
    }
    for (CaseRow& row : run.rows) {
      row.low = row.value - 0.02;
      row.high = row.value + 0.02;
    }
    write_run(folder / fmt::format("rope-{}", seed), run);
  }
}

inline report::EvidencePart part_of(const TemporaryFolder& folder) {
  report::EvidencePart part{
      .page = "count", .part = "main", .jobs = 9, .runs = report::find_runs({folder.path()})};
  part.comparison = report::compare(part.runs);
  return part;
}

inline const std::vector<std::string>* row_named(const report::TextTable& table,
                                                 const std::string& name) {
  const auto found = std::find_if(table.rows.begin(), table.rows.end(),
                                  [&](const auto& row) { return row[0] == name; });
  return found == table.rows.end() ? nullptr : &*found;
}
// As if every job had its run.
inline std::vector<report::FlatConfig> job_fields(const report::EvidencePart& part) {
  std::vector<report::FlatConfig> jobs;
  for (const report::Run& run : part.runs) jobs.push_back(report::training_fields(run.config));
  return jobs;
}

}  // namespace posenc::testing
