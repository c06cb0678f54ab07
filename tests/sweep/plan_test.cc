// Sweep files and the jobs they stand for.
#include "sweep/plan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "config/load.h"
#include "posenc/core/error.h"
#include "support/temporary_folder.h"

namespace posenc::sweep {
namespace {

using testing::TemporaryFolder;
using testing::write_content;

using Points = std::vector<std::vector<std::string>>;

std::string error_of(const std::string& yaml) {
  try {
    parse_sweep(yaml, "dir/s.yaml");
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(SweepFile, IsTheProductOfItsLists) {
  const SweepFile file = parse_sweep(
      "base: a.yaml\nout: runs/x\ngrid:\n  model.encoding: [none, rope]\n  seed: [0, 1]\n",
      "dir/s.yaml");
  EXPECT_EQ(file.base, std::filesystem::path("dir/a.yaml"));
  EXPECT_EQ(file.out, std::filesystem::path("runs/x"));
  EXPECT_EQ(file.points, (Points{{"model.encoding=none", "seed=0"},
                                 {"model.encoding=none", "seed=1"},
                                 {"model.encoding=rope", "seed=0"},
                                 {"model.encoding=rope", "seed=1"}}));
}

TEST(SweepFile, AlsoAddsGridsAndExcludeTakesAway) {
  const SweepFile file = parse_sweep(R"(base: a.yaml
out: runs/x
grid: {model.encoding: [none, rope], seed: [0, 1]}
also:
  - {model.encoding: cope, model.layers: [2, 4]}
exclude:
  - {model.encoding: none, seed: [1]}
  - {model.layers: 4}
)",
                                     "s.yaml");
  EXPECT_EQ(file.points, (Points{{"model.encoding=none", "seed=0"},
                                 {"model.encoding=rope", "seed=0"},
                                 {"model.encoding=rope", "seed=1"},
                                 {"model.encoding=cope", "model.layers=2"}}));
}

TEST(SweepFile, ListsThatMultiplyBeyondAllMeasureAreRefused) {
  std::string grid;
  for (int key = 0; key < 30; ++key) grid += fmt::format("  k{}: [0, 1, 2, 3, 4]\n", key);
  EXPECT_NE(error_of("base: a.yaml\nout: x\ngrid:\n" + grid).find("at most 100000 combinations"),
            std::string::npos);
}

TEST(SweepFile, MistakesNameTheirPlace) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"out: x\ngrid: {seed: [0]}\n", "base is required"},
      {"base: a\ngrid: {seed: [0]}\n", "out is required"},
      {"base: a\nout: x\ngird: {seed: [0]}\n",
       "gird is not a known key (line 3, column 1); did you mean 'grid'?"},
      {"base: a\nout: x\n", "grid has no combinations"},
      {"base: a\nout: x\ngrid: [0, 1]\n", "grid must be a map (line 3, column 7)"},
      {"base: a\nout: x\ngrid: {seed: []}\n", "grid.seed must have a value (line 3, column 14)"},
      {"base: a\nout: x\ngrid: {seed: [0]}\nexclude: [{seed: 3}]\n",
       "exclude matches no combination (line 4, column 11)"},
      {"base: a\nout: x\ngrid: {seed: [0]}\nexclude: {seed: 0}\n", "must be a list of maps"},
      {"base: a\nout: x\ngrid: {model.layers: [1, 2], model: [{encoding: alibi}]}\n",
       "grid.model must not be set together with model.layers, which it contains"},
      {"base: 3\nout: x\ngrid: {seed: [0]}\n", "base must be a path"},
      {"base: a\nbase: b\n", "base is given twice (line 2, column 1)"},
  };
  for (const auto& [yaml, part] : cases) {
    const std::string said = error_of(yaml);
    EXPECT_NE(said.find(part), std::string::npos) << yaml << said;
    EXPECT_EQ(said.rfind("[dir/s.yaml]", 0), 0U) << said;
  }
}

TEST(SweepFile, AnyValueSurvivesTheCommandLine) {
  const auto back = [](const std::string& assignment) {
    Value tree(Value::Data(Value::Map{}));
    config::apply_override(tree, assignment);
    return *tree.find("k");
  };
  for (const std::string text :
       {"rope", "rope(theta=500000) + alibi", "3", "true", "null", "1e3"}) {
    const Value word = Value::of_string(text);
    EXPECT_EQ(back(assignment_text("k", word)), word) << text;
  }
  const Value list = parse_yaml("[rope, none]", "x");
  EXPECT_EQ(back(assignment_text("k", list)), list);
  const Value map = parse_yaml("{flip_flop: {p: 0.5}}", "x");
  EXPECT_EQ(back(assignment_text("k", map)), map);
  EXPECT_EQ(assignment_text("k", Value(Value::Data(0.1))), "k=0.1");
  EXPECT_EQ(assignment_text("k", Value(Value::Data(2.0))), "k=2") << "an integer for a number";
}

class Planned : public ::testing::Test {
 protected:
  Planned() {
    write_content(folder_ / "base.yaml", "task: selective_counting\nmodel: {dim: 32, heads: 2}\n");
  }
  Plan plan(const std::string& rest, const std::vector<std::string>& settings = {}) const {
    return make_plan(
        parse_sweep("base: base.yaml\nout: " + (folder_ / "out") + "\n" + rest, folder_ / "s.yaml"),
        settings);
  }
  TemporaryFolder folder_;
};

TEST_F(Planned, JobsAreNamedByWhatVaries) {
  const Plan p = plan(
      "grid: {model.encoding: [none, 'rope(theta=500000) + alibi'], model.layers: [1], seed: [0, "
      "1]}");
  ASSERT_EQ(p.jobs.size(), 4U);
  EXPECT_EQ(p.jobs[0].name, "none-layers1-seed0");
  EXPECT_EQ(p.jobs[3].name, "rope_theta_500000_alibi-layers1-seed1");
  EXPECT_EQ(p.jobs[0].hash.size(), 16U);
  EXPECT_EQ(p.jobs[0].folder.filename().string(),
            "none-layers1-seed0-" + p.jobs[0].hash.substr(0, 8));
  EXPECT_EQ(p.jobs[0].settings.back(), "name=none-layers1-seed0");
  const auto loaded = config::load_config(folder_ / "base.yaml", p.jobs[3].settings);
  EXPECT_EQ(loaded.hash, p.jobs[3].hash) << "the name is no part of it";
  EXPECT_EQ(loaded.config.seed, 1);
}

TEST_F(Planned, NamesCannotLeaveTheFolderOfTheSweep) {
  for (const char* name : {"../x", "/x", "a/b", "'.'", "''"}) {
    const std::string rest = fmt::format("grid: {{name: [{}]}}", name);
    EXPECT_THROW(plan(rest), Error) << name;
    EXPECT_THROW(plan("grid: {seed: [0]}", {fmt::format("name={}", name)}), Error) << name;
  }
  const Plan p = plan("grid: {model.encoding: ['rope + alibi'], name: [mine]}");
  EXPECT_EQ(p.jobs[0].folder.parent_path().string(), folder_ / "out");
}

TEST_F(Planned, TheSameConfigTwiceIsOneJob) {
  const Plan p = plan("grid: {seed: [0, 1]}\nalso: [{seed: 1, model.layers: 2}]");
  EXPECT_EQ(p.jobs.size(), 2U) << "two layers are the default";
  EXPECT_EQ(p.repeated, 1U);
}

// A run has one evaluation: a second one would replace the first.
TEST_F(Planned, EvaluationsAreNothingToVary) {
  try {
    plan("grid: {eval.samples: [8, 16], seed: [0]}");
    FAIL();
  } catch (const Error& e) {
    const std::string said = e.what();
    EXPECT_NE(said.find("trains the same model as samples8-seed0"), std::string::npos) << said;
  }
  const Plan p = plan("grid: {seed: [0, 1]}", {"eval.samples=8"});
  EXPECT_EQ(p.jobs[0].hash, plan("grid: {seed: [0]}").jobs[0].hash);
  EXPECT_NE(p.jobs[0].eval_hash, plan("grid: {seed: [0]}").jobs[0].eval_hash);
  EXPECT_EQ(p.jobs[0].eval_hash, p.jobs[1].eval_hash);
}

TEST_F(Planned, SettingsHoldForAllAndMayNotCross) {
  const Plan p = plan("grid: {seed: [0, 1]}", {"model.layers=3"});
  EXPECT_EQ(p.jobs[1].settings[0], "model.layers=3");
  EXPECT_NE(p.jobs[0].hash, plan("grid: {seed: [0, 1]}").jobs[0].hash);
  EXPECT_THROW(plan("grid: {seed: [0, 1]}", {"seed=2"}), Error);
}

TEST_F(Planned, ADeviceHoldsForAllJobsUnlessTheySetIt) {
  using config::Device;
  const auto on = [&](Device device, const std::string& grid,
                      const std::vector<std::string>& settings = {}) {
    const SweepFile file = parse_sweep("base: base.yaml\nout: o\n" + grid, folder_ / "s.yaml");
    const Plan p = make_plan(file, with_device(file, settings, device));
    require_device(p, device);
    return p;
  };
  const Plan p = on(Device::kCuda, "grid: {seed: [0, 1]}");
  EXPECT_EQ(p.jobs[1].device, Device::kCuda);
  EXPECT_EQ(p.jobs[1].settings[0], "train.device=cuda");
  EXPECT_EQ(p.jobs[1].name, "seed1");
  EXPECT_EQ(on(Device::kCuda, "grid: {seed: 0}", {"train.device=cuda"}).jobs[0].settings.size(),
            3U);
  EXPECT_EQ(on(Device::kCuda, "grid: {train.device: cuda}").jobs[0].device, Device::kCuda);
  EXPECT_THROW(on(Device::kCuda, "grid: {seed: 0}", {"train.device=cpu"}), Error);
  EXPECT_THROW(on(Device::kCpu, "grid: {seed: 0}", {"train={device: cuda}", "train.device=cuda"}),
               Error);
  try {
    on(Device::kCuda, "grid: {train.device: [cuda, cpu]}");
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("--device cuda contradicts train.device=cpu of the job"),
              std::string::npos)
        << e.what();
  }
}

TEST_F(Planned, AMistakeInOneCombinationStopsThePlan) {
  try {
    plan("grid: {model.encoding: [rope, rop], seed: [0]}");
    FAIL();
  } catch (const Error& e) {
    const std::string said = e.what();
    EXPECT_NE(said.find("model.encoding=rop, seed=0"), std::string::npos) << said;
    EXPECT_NE(said.find("rope"), std::string::npos) << said;
  }
  EXPECT_THROW(plan("grid: {model.layerz: [1]}"), Error);
}

TEST_F(Planned, ShardsAreDisjointAndTogetherAll) {
  const Plan p = plan("grid: {model.encoding: [none, rope, alibi], seed: [0, 1, 2, 3, 4, 5, 6]}");
  for (const int parts : {1, 2, 4, 30}) {
    std::multiset<std::string> seen;
    std::size_t smallest = p.jobs.size();
    std::size_t largest = 0;
    for (int part = 1; part <= parts; ++part) {
      const auto jobs = shard(p.jobs, part, parts);
      smallest = std::min(smallest, jobs.size());
      largest = std::max(largest, jobs.size());
      for (const Job& job : jobs) seen.insert(job.hash);
    }
    EXPECT_EQ(seen.size(), p.jobs.size()) << parts;
    EXPECT_EQ(std::set<std::string>(seen.begin(), seen.end()).size(), p.jobs.size()) << parts;
    EXPECT_LE(largest - smallest, 1U) << parts;
  }
  std::vector<Job> turned(p.jobs.rbegin(), p.jobs.rend());
  const auto a = shard(p.jobs, 2, 4);
  const auto b = shard(turned, 2, 4);
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(a.front().hash, b.back().hash) << "the order of the file does not matter";
  for (const auto& [part, parts] : std::vector<std::pair<int, int>>{{0, 2}, {3, 2}, {1, 0}}) {
    EXPECT_THROW(shard(p.jobs, part, parts), Error);
  }
}

}  // namespace
}  // namespace posenc::sweep
