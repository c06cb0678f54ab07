// Whether runs of the same part agree.
#include "report/evidence_verdict.h"

#include <gtest/gtest.h>

#include "report/evidence_case.h"

namespace posenc::report {
namespace {

using testing::CaseRun;
using testing::part_of;
using testing::TemporaryFolder;
using testing::write_run;
using testing::write_scheduled;
using testing::write_seeds;

const Verdict& verdict_at(const std::vector<Verdict>& all, const std::string& row,
                          const std::string& condition) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const Verdict& v) {
    return v.row == row && v.condition == condition;
  });
  static const Verdict none;
  return found == all.end() ? none : *found;
}

TEST(Verdicts, AgreeWhereIntervalsOverlap) {
  const TemporaryFolder here;
  const TemporaryFolder there;
  write_seeds(here, "rope", 0.51);
  write_seeds(there, "rope", 0.5);
  write_seeds(here, "alibi", 0.9);
  write_seeds(there, "alibi", 0.5);
  write_seeds(here, "kerple", 0.2);
  write_seeds(there, "kerple", 0.5);
  write_seeds(here, "t5", 0.9);
  write_seeds(there, "none", 0.5);
  const auto all = verdicts(find_runs({here.path()}), find_runs({there.path()}));
  const Verdict& same = verdict_at(all, "rope", "longer 2x (64)");
  EXPECT_EQ(same.words, "agrees within the intervals");
  EXPECT_EQ(same.here.rfind("52.0 [", 0), 0U) << same.here;
  EXPECT_EQ(same.there.rfind("51.0 [", 0), 0U) << same.there;
  EXPECT_EQ(verdict_at(all, "alibi", "longer 2x (64)").words, "differs by 40.0 points");
  EXPECT_EQ(verdict_at(all, "kerple", "longer 2x (64)").words, "differs by 30.0 points");
  EXPECT_EQ(verdict_at(all, "alibi", "in domain (32)").words, "agrees within the intervals");
  EXPECT_EQ(verdict_at(all, "none", "").words, "only there");
  EXPECT_EQ(verdict_at(all, "t5", "").words, "only here");
}

TEST(Verdicts, OfFewSeedsGoByTheSeeds) {
  const TemporaryFolder here;
  const TemporaryFolder there;
  write_seeds(here, "rope", 0.505, 1);
  write_seeds(there, "rope", 0.5, 2);
  write_seeds(here, "alibi", 0.6, 1);
  write_seeds(there, "alibi", 0.5, 2);
  const auto all = verdicts(find_runs({here.path()}), find_runs({there.path()}));
  EXPECT_EQ(verdict_at(all, "rope", "longer 2x (64)").words, "agrees within the seeds");
  EXPECT_EQ(verdict_at(all, "alibi", "longer 2x (64)").words, "differs by 9.5 points");
}

TEST(Verdicts, HoldRunsOfOneConfigAgainstEachOtherOnAnyDevice) {
  const TemporaryFolder here;
  const TemporaryFolder there;
  write_seeds(here, "rope", 0.5, 3, 2);
  write_seeds(there, "rope", 0.5, 3, 2);
  write_seeds(there, "rope", 0.9, 3, 4);
  for (int seed = 0; seed < 3; ++seed) {
    const std::string path = here / fmt::format("rope-2-{}/config.yaml", seed);
    std::string text = testing::file_content(path);
    text.replace(text.find("train: {"), 8, "train: {device: cuda, ");
    testing::write_content(path, text);
  }
  const auto all = verdicts(find_runs({here.path()}), find_runs({there.path()}));
  EXPECT_EQ(verdict_at(all, "rope, model.layers=2", "longer 2x (64)").words,
            "agrees within the intervals");
  EXPECT_EQ(verdict_at(all, "rope, model.layers=4", "").words, "only there");
}

TEST(Verdicts, AreGivenForRowsOfSchedules) {
  const TemporaryFolder here;
  const TemporaryFolder there;
  write_scheduled(here, 0.8);
  write_scheduled(there, 0.2);
  const auto all = verdicts(find_runs({here.path()}), find_runs({there.path()}));
  const Verdict& ntk = verdict_at(all, "rope, ntk", "longer 2x (64)");
  EXPECT_EQ(ntk.words, "differs by 30.0 points");
  EXPECT_EQ(ntk.here.rfind("41.0 [", 0), 0U) << ntk.here;
  EXPECT_EQ(ntk.there.rfind("11.0 [", 0), 0U) << ntk.there;
  EXPECT_EQ(verdict_at(all, "rope", "longer 2x (64)").words, "agrees within the intervals");
  EXPECT_EQ(verdict_at(all, "rope", "in domain (32)").words, "agrees within the intervals");
  EXPECT_EQ(verdict_at(all, "rope, ntk", "in domain (32)").words, "") << "said once, of rope";
  EXPECT_EQ(all.size(), 6U) << "four conditions of rope, two of the schedule";
}

TEST(Verdicts, SayWhichSideHasASchedule) {
  const TemporaryFolder here;
  const TemporaryFolder there;
  write_scheduled(here, 0.8, "yarn");
  write_scheduled(there, 0.8, "ntk");
  const auto all = verdicts(find_runs({here.path()}), find_runs({there.path()}));
  const Verdict& ntk = verdict_at(all, "rope, ntk", "longer 2x (64)");
  EXPECT_EQ(ntk.words, "only there");
  EXPECT_EQ(ntk.here, "-");
  EXPECT_EQ(verdict_at(all, "rope, yarn", "").words, "only here");
}

TEST(Verdicts, OfTextAreInBitsPerByte) {
  const TemporaryFolder here;
  const TemporaryFolder there;
  for (int seed = 0; seed < 3; ++seed) {
    CaseRun run{.seed = seed, .metric = Metric::kBitsPerByte};
    run.rows = {{"train", 1, 2.0 + 0.001 * seed, 1.9, 2.1}};
    write_run(there / std::to_string(seed), run);
    run.rows = {{"train", 1, 3.0 + 0.001 * seed, 2.9, 3.1}};
    write_run(here / std::to_string(seed), run);
  }
  const auto all = verdicts(find_runs({here.path()}), find_runs({there.path()}));
  EXPECT_EQ(verdict_at(all, "rope", "in domain (32)").words, "differs by 1.000 bits per byte");
}

}  // namespace
}  // namespace posenc::report
