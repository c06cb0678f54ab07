// Speeds of runs that shared a machine.
#include "report/sharing.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "report/compare.h"
#include "report/page_case.h"
#include "report/run_case.h"

namespace posenc::report {
namespace {

using testing::CaseRun;
using testing::TemporaryFolder;
using testing::write_run;

// Three seeds of an encoding; `environment` gets the number of the run.
template <class Environment>
void write_seeds(const TemporaryFolder& folder, const std::string& encoding, double speed,
                 const Environment& environment) {
  for (int seed = 0; seed < 3; ++seed) {
    write_run(folder / fmt::format("{}-{}", encoding, seed),
              {.encoding = encoding,
               .seed = seed,
               .tokens_per_s = speed + 3.0 * seed,
               .rows = {{"train", 1, 0.9 + 0.01 * seed, 0.8, 1.0}},
               .environment = environment(seed)});
  }
}

TaskTable table_of(const std::string& none, const std::string& rope) {
  const TemporaryFolder folder;
  write_seeds(folder, "none", 2000.0, [&](int) { return none; });
  write_seeds(folder, "rope", 1000.0, [&](int) { return rope; });
  return compare(find_runs({folder.path()})).tasks.at(0);
}

bool compares_speeds(const TaskTable& table) {
  const bool found = std::any_of(table.findings.begin(), table.findings.end(),
                                 [](const statistics::Finding& finding) {
                                   return finding.text.find("training speed") != std::string::npos;
                                 });
  const bool costs = std::any_of(
      table.entries.begin(), table.entries.end(),
      [](const Entry& entry) { return entry.encoding != "none" && entry.cost.has_value(); });
  EXPECT_EQ(found, costs) << "findings and costs go by the same rule";
  EXPECT_EQ(found, table.sharing.empty());
  return found;
}

std::ptrdiff_t notes_with(const TaskTable& table, const std::string& part) {
  return std::count_if(table.notes.begin(), table.notes.end(), [&](const std::string& note) {
    return note.find(part) != std::string::npos;
  });
}

TEST(SharedMachines, SpeedsOfRunsThatSharedAGpuAreNotCompared) {
  const std::string four = R"(, "device": "cuda", "jobs_at_once": 4)";
  const TaskTable table = table_of(four, four);
  EXPECT_FALSE(compares_speeds(table));
  EXPECT_EQ(notes_with(table, "training speeds are not compared: up to 4 runs shared the GPU"), 1)
      << "once for all";
  const std::string alone = R"(, "device": "cuda:0", "jobs_at_once": 1)";
  EXPECT_TRUE(compares_speeds(table_of(alone, alone)));
  EXPECT_FALSE(compares_speeds(table_of(alone, R"(, "device": "cuda:0", "jobs_at_once": 2)")));
}

TEST(SharedMachines, OnACpuTheNumberOfJobsMustBeTheSame) {
  const std::string four = R"(, "device": "cpu", "jobs_at_once": 4)";
  EXPECT_TRUE(compares_speeds(table_of(four, four))) << "each had its own cores";
  const TaskTable table = table_of(R"(, "device": "cpu", "jobs_at_once": 1)", four);
  EXPECT_FALSE(compares_speeds(table));
  EXPECT_EQ(notes_with(table, "runs were trained 1 and 4 at a time"), 1);
  EXPECT_FALSE(compares_speeds(table_of(R"(, "device": "cpu")", four))) << "missing means alone";
}

// Runs of 2.5 s that start `seconds` after each other.
std::string started(const std::string& device, int index, int seconds,
                    const std::string& more = "") {
  return fmt::format(R"(, "device": "{}", "started": "2026-02-03T04:05:{:02}Z"{})", device,
                     index * seconds, more);
}

TaskTable table_every(const std::string& device, int seconds, const std::string& more = "") {
  const TemporaryFolder folder;
  write_seeds(folder, "none", 2000.0, [&](int s) { return started(device, s, seconds, more); });
  write_seeds(folder, "rope", 1000.0, [&](int s) { return started(device, 3 + s, seconds, more); });
  return compare(find_runs({folder.path()})).tasks.at(0);
}

TEST(SharedMachines, OldRunsOnAGpuAreNotComparedWhereTheirTimesOverlap) {
  const TaskTable table = table_every("cuda", 2);
  EXPECT_FALSE(compares_speeds(table));
  EXPECT_EQ(notes_with(table, "runs on the GPU overlapped in time"), 1);
  EXPECT_TRUE(compares_speeds(table_every("cuda", 3)));
  EXPECT_TRUE(compares_speeds(table_every("cpu", 2)));
  EXPECT_TRUE(compares_speeds(table_every("cuda", 2, R"(, "jobs_at_once": 1)")))
      << "they say that they were alone: other machines";
}

TEST(SharedMachines, ThePageWarnsAboutSpeeds) {
  const auto warnings = [](const char* jobs) {
    const TemporaryFolder folder;
    const auto environment = [&](int) {
      return fmt::format(R"(, "device": "cuda", "jobs_at_once": {})", jobs);
    };
    write_seeds(folder, "none", 2000.0, environment);
    write_seeds(folder, "rope", 1000.0, environment);
    return testing::count_of(testing::page_of(folder.path()), "shared a machine with others");
  };
  EXPECT_GE(warnings("2"), 1U);
  EXPECT_EQ(warnings("1"), 0U);
}

TEST(SharedMachines, ACopyOfARunDoesNotOverlapIt) {
  const TemporaryFolder folder;
  const CaseRun run = {.rows = {{"train", 1, 0.9, 0.8, 1.0}}, .environment = started("cuda", 0, 1)};
  write_run(folder / "a", run);
  write_run(folder / "b", run);
  const auto runs = find_runs({folder.path()});
  EXPECT_TRUE(overlapping_runs(runs).empty());
  write_run(folder / "c", {.seed = 1, .rows = run.rows, .environment = started("cuda", 1, 1)});
  EXPECT_EQ(overlapping_runs(find_runs({folder.path()})).size(), 3U);
  write_run(folder / "d",
            {.seed = 2, .cpu = "large", .rows = run.rows, .environment = started("cuda", 1, 1)});
  EXPECT_EQ(overlapping_runs(find_runs({folder.path()})).size(), 3U) << "of another machine";
}

}  // namespace
}  // namespace posenc::report
