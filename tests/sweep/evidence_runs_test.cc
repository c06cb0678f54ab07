// Which job a run belongs to.
#include "sweep/evidence_runs.h"

#include <gtest/gtest.h>

#include "config/load.h"
#include "support/paths.h"
#include "support/temporary_folder.h"
#include "sweep/evidence_file.h"

namespace posenc::sweep {
namespace {

using testing::TemporaryFolder;
using testing::write_content;

constexpr const char* kBase =
    "task: selective_counting\nmodel: {layers: 1, dim: 16, heads: 2}\n"
    "train: {steps: 10}\neval: {samples: 8}\n";

class EvidenceRuns : public ::testing::Test {
 protected:
  EvidenceRuns() {
    write_content(folder_ / "base.yaml", kBase);
    plan_ = make_plan({.path = "e.yaml",
                       .base = folder_ / "base.yaml",
                       .out = folder_ / "out",
                       .points = {{"seed=0", "model.encoding=rope"},
                                  {"seed=1", "model.encoding=rope"},
                                  {"seed=0", "model.encoding=alibi"}}},
                      {});
  }
  // As a run of the config with these settings keeps it.
  [[nodiscard]] KeptRun run(const std::string& name,
                            const std::vector<std::string>& settings) const {
    const auto loaded = config::parse_config(kBase, "base", settings);
    return {name, loaded.tree, *loaded.tree.find("eval")};
  }

  TemporaryFolder folder_;
  Plan plan_;
};

TEST_F(EvidenceRuns, AreFoundOnAnyDeviceAndUnderAnyName) {
  const RunMatch match = match_runs(
      plan_, {run("a", {"model.encoding=rope", "seed=1", "train.device=cuda", "name=other"}),
              run("b", {"model.encoding=alibi", "train.log_every=3"})});
  EXPECT_EQ(match.problems, std::vector<std::string>{});
  EXPECT_EQ(match.jobs_with_runs, 2U);
}

TEST_F(EvidenceRuns, OfAnOlderVersionHaveTheDefaultsOfNewFields) {
  KeptRun old = run("old", {});
  old.config = parse_yaml(
      "seed: 0\ntask: selective_counting\nmodel: {layers: 1, dim: 16, heads: 2, encoding: rope}\n"
      "train: {steps: 10}\n",
      "old");
  old.eval = parse_yaml("samples: 8\n", "old");
  EXPECT_EQ(match_runs(plan_, {old}).problems, std::vector<std::string>{});
}

TEST_F(EvidenceRuns, ThatAreNoJobAreNamed) {
  KeptRun unreadable = run("strange", {});
  unreadable.config = parse_yaml("task: nothing_known\n", "strange");
  const std::vector<std::string> problems =
      match_runs(plan_, {run("longer", {"model.encoding=rope", "train.steps=11"}),
                         run("first", {"model.encoding=rope"}),
                         run("second", {"model.encoding=rope", "train.device=cuda"}),
                         run("more", {"model.encoding=alibi", "eval.samples=9"}), unreadable})
          .problems;
  ASSERT_EQ(problems.size(), 4U);
  EXPECT_EQ(problems[0], "longer is not a job of the sweep: its config is another one");
  EXPECT_EQ(problems[1], "second is the same job as first");
  EXPECT_EQ(problems[2], "more was not evaluated with the settings of the sweep");
  EXPECT_NE(problems[3].find("strange has a config that cannot be read"), std::string::npos);
}

TEST_F(EvidenceRuns, OfAFailureNeedNoEvaluation) {
  KeptRun failed = run("failed", {"model.encoding=rope"});
  failed.eval.reset();
  const RunMatch match = match_runs(plan_, {failed});
  EXPECT_EQ(match.problems, std::vector<std::string>{});
  EXPECT_EQ(match.jobs_with_runs, 1U);
}

TEST_F(EvidenceRuns, KnowTheEncodingsOfTheirPlan) {
  EXPECT_EQ(encodings_of(plan_), (std::vector<std::string>{"rope", "alibi"}));
}

// Every committed evidence file makes plans of jobs that are all different.
TEST(ShippedEvidence, ExpandsToJobs) {
  const std::filesystem::path folder =
      std::filesystem::path(posenc::testing::kTestData) / "../configs/evidence";
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".yaml") continue;
    ++files;
    const EvidenceFile file = read_evidence(entry.path().string());
    for (const EvidencePart& part : file.parts) {
      const Plan plan = make_plan(part.sweep, {});
      EXPECT_FALSE(plan.jobs.empty()) << file.path << " " << part.name;
      EXPECT_EQ(plan.repeated, 0U) << file.path << " " << part.name;
    }
  }
  EXPECT_GE(files, 2U);
}

}  // namespace
}  // namespace posenc::sweep
