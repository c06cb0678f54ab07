// A run evaluated under several RoPE schedules at once has the figures of an evaluation under each.
#include "train/schedules.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "train/lab_process.h"

namespace posenc::train {
namespace {

using nlohmann::json;
using testing::Folder;
using testing::LabResult;
using testing::run_lab;

config::LabConfig config_with(const std::string& encoding,
                              const std::vector<std::string>& schedules) {
  config::LabConfig config;
  config.model.encoding = {encoding};
  config.model.dim = 16;
  config.model.heads = 2;
  config.train.length = 8;
  config.eval.schedules = schedules;
  return config;
}

std::vector<std::string> names(const std::vector<ScheduledCase>& cases) {
  std::vector<std::string> all;
  for (const ScheduledCase& c : cases) {
    all.push_back(runs::condition_name(c.condition.axis, c.condition.length, c.schedule));
  }
  return all;
}

TEST(Schedules, StandAfterTheModelsOwnWhereRowsAreLonger) {
  EvalSetting setting;
  setting.train_length = 8;
  const std::vector<EvalCase> cases = {{"train", 8}, {"longer", 9}, {"longer", 32}};
  using Names = std::vector<std::string>;
  EXPECT_EQ(names(scheduled_cases(cases, setting, {"ntk", "yarn"})),
            (Names{"train 8", "longer 9", "longer 9 ntk", "longer 9 yarn", "longer 32",
                   "longer 32 ntk", "longer 32 yarn"}));
  EXPECT_EQ(names(scheduled_cases(cases, setting, {"yarn"}, OwnSchedule::kReplaced)),
            (Names{"train 8", "longer 9 yarn", "longer 32 yarn"}));
  EXPECT_EQ(names(scheduled_cases(cases, setting, {})),
            (Names{"train 8", "longer 9", "longer 32"}));
  setting.longest = 16;
  EXPECT_EQ(names(scheduled_cases(cases, setting, {"yarn"})),
            (Names{"train 8", "longer 9", "longer 9 yarn", "longer 32"}))
      << "a length that is skipped is skipped once";
}

TEST(Schedules, StretchEveryRopeAndNothingElse) {
  config::ModelConfig model = config_with("alibi", {}).model;
  model.encoding = {"rope + alibi", "none", "rope(rotary_dim=4)"};
  const auto changed = under_schedule(model, "longrope", 4.0, 8);
  EXPECT_EQ(changed.encoding[1], "none");
  EXPECT_NE(changed.encoding[0].find("alibi"), std::string::npos);
  EXPECT_NE(changed.encoding[0].find("long_factor"), std::string::npos) << changed.encoding[0];
  EXPECT_NO_THROW(validate(changed, "test")) << "two pairs turn there: " << changed.encoding[2];
  EXPECT_THROW((void)under_schedule(config_with("alibi", {}).model, "yarn", 2.0, 8), Error);
}

TEST(Schedules, HaveNoEffectWithoutRope) {
  const auto config = config_with("alibi", {"ntk", "yarn"});
  EXPECT_TRUE(schedules_of(config).empty());
  EXPECT_EQ(check_schedules(config),
            "eval.schedules (ntk, yarn) has no effect: model.encoding has no rope");
  EXPECT_EQ(check_schedules(config_with("alibi", {"none"})), "");
  const auto rotated = config_with("alibi + rope", {"ntk", "yarn"});
  EXPECT_EQ(check_schedules(rotated), "");
  EXPECT_EQ(schedules_of(rotated), (std::vector<std::string>{"ntk", "yarn"}));
}

constexpr const char* kConfig = R"(task: parity
model: {encoding: rope, layers: 1, dim: 16, heads: 2}
train: {length: 8, batch: 16, steps: 20, lr: 0.01}
eval: {samples: 32, factors: [1, 2, 4], schedules: [ntk, yarn]}
)";

json read_json(const std::string& path) {
  std::ifstream file(path);
  return json::parse(file);
}

// The rows under a schedule, the model's own where it is empty.
std::vector<json> rows_under(const json& results, const std::string& schedule) {
  std::vector<json> rows;
  for (const json& row : results["rows"]) {
    if (row.value("schedule", "") == schedule) rows.push_back(row);
  }
  return rows;
}

class ScheduledRun : public ::testing::Test {
 protected:
  [[nodiscard]] std::string run() const { return folder_ / "run"; }
  [[nodiscard]] LabResult train(const std::string& more = "") const {
    return run_lab("train " + folder_.write("config.yaml", kConfig) + " --progress plain --out " +
                   run() + " " + more);
  }
  [[nodiscard]] json results() const { return read_json(run() + "/results.json"); }
  // What `posenc eval` finds with these arguments.
  [[nodiscard]] json evaluated(const std::string& arguments) const {
    const std::string out = folder_ / "other.json";
    const LabResult result =
        run_lab("eval " + run() + " --progress quiet --out " + out + " " + arguments);
    EXPECT_EQ(result.code, 0) << result.out;
    return read_json(out);
  }
  Folder folder_;
};

TEST_F(ScheduledRun, HasTheFiguresOfAnEvaluationUnderEach) {
  const LabResult trained = train();
  ASSERT_EQ(trained.code, 0) << trained.out;
  const json all = results();
  const json own = evaluated("--set eval.schedules=none");
  EXPECT_EQ(rows_under(all, ""), rows_under(own, ""));
  EXPECT_EQ(rows_under(own, "").size(), own["rows"].size()) << "none is none";
  for (const std::string schedule : {"ntk", "yarn"}) {
    const std::vector<json> here = rows_under(all, schedule);
    EXPECT_EQ(here, rows_under(evaluated("--schedule " + schedule), schedule)) << schedule;
    EXPECT_GE(here.size(), 2U) << "2x and 4x";
    for (const json& row : here) EXPECT_GT(row["factor"], 1.0);
    EXPECT_NE(here, rows_under(all, "")) << schedule;
    EXPECT_TRUE(all["effective_length"].contains("longer, " + schedule)) << all["effective_length"];
  }
  EXPECT_NE(trained.out.find("(4x), yarn"), std::string::npos) << trained.out;
}

// The same frequencies written out in a spec: another way to the figures of a length.
TEST_F(ScheduledRun, IsStretchedToEachLength) {
  ASSERT_EQ(train().code, 0);
  const std::vector<json> stretched = rows_under(results(), "yarn");
  for (const int factor : {2, 4}) {
    const std::string spec =
        fmt::format("rope(schedule=yarn(factor={}, original_max_position_embeddings=8))", factor);
    const json written = evaluated("--encoding '" + spec + "'");
    const auto at_factor = [&](const std::vector<json>& rows) {
      return *std::find_if(rows.begin(), rows.end(),
                           [&](const json& row) { return row["factor"] == factor; });
    };
    EXPECT_EQ(at_factor(stretched)["loss"], at_factor(rows_under(written, spec))["loss"]);
    EXPECT_NE(at_factor(stretched)["loss"], at_factor(rows_under(results(), ""))["loss"]);
  }
}

TEST_F(ScheduledRun, KeepsTheScoresOfEachByName) {
  ASSERT_EQ(train().code, 0);
  const std::string scores = read_file(run() + "/scores.bin");
  const runs::RunTallies tallies = runs::parse_scores(scores, run());
  EXPECT_EQ(tallies.conditions.size(), results()["rows"].size());
  const auto named = [&](const std::string& name) {
    return *std::find_if(tallies.conditions.begin(), tallies.conditions.end(),
                         [&](const runs::ConditionTallies& c) { return c.name == name; });
  };
  EXPECT_NE(named("longer 32").regions, named("longer 32 yarn").regions);
  EXPECT_NE(named("longer 32 ntk").regions, named("longer 32 yarn").regions);
  // An evaluation of the run keeps all of them, too.
  const LabResult again = run_lab("eval " + run() + " --progress quiet");
  ASSERT_EQ(again.code, 0) << again.out;
  EXPECT_EQ(read_file(run() + "/scores.bin"), scores);
}

TEST_F(ScheduledRun, SaysOnceThatAModelWithoutRopeHasNone) {
  const LabResult trained = train("--set model.encoding=alibi");
  ASSERT_EQ(trained.code, 0) << trained.out;
  const std::string note = "has no effect";
  const auto first = trained.out.find(note);
  ASSERT_NE(first, std::string::npos) << trained.out;
  EXPECT_EQ(trained.out.find(note, first + 1), std::string::npos) << trained.out;
  EXPECT_EQ(rows_under(results(), "").size(), results()["rows"].size());
}

TEST_F(ScheduledRun, AWrongNameIsSaidBeforeTraining) {
  const LabResult refused = train("--set eval.schedules=[ntk,yarm]");
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.out.find("did you mean 'yarn'?"), std::string::npos) << refused.out;
  EXPECT_FALSE(std::filesystem::exists(run()));
}

}  // namespace
}  // namespace posenc::train
