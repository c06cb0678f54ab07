// Whatever goes wrong is one clear line and exit 2, and nothing is half-written.
#include <gtest/gtest.h>

#include <algorithm>

#include "runs/run_directory.h"
#include "train/lab_process.h"

namespace posenc::testing {
namespace {

constexpr const char* kConfig = R"(task: parity
model: {encoding: rope, layers: 1, dim: 16, heads: 2}
train: {length: 8, batch: 4, steps: 3}
eval: {samples: 8, factors: [1, 2]}
)";

void expect_one_line(const LabResult& result, const std::string& part) {
  EXPECT_EQ(result.code, 2) << result.out;
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 1) << result.out;
  EXPECT_NE(result.out.find(part), std::string::npos) << result.out;
}

class Mistakes : public ::testing::Test {
 protected:
  [[nodiscard]] LabResult train(const std::string& config, const std::string& more = "",
                                const std::string& before = "") const {
    return run_lab("train " + folder_.write("config.yaml", config) + " --progress quiet --out " +
                       (folder_ / "run") + " " + more,
                   before);
  }
  Folder folder_;
};

TEST_F(Mistakes, InConfigs) {
  expect_one_line(train("task: paritie\n"), "did you mean 'parity'?");
  expect_one_line(train("task: parity\nmodel: {layer: 3}\n"), "model.layer is not a known key");
  expect_one_line(train("task: parity\ntask: mqar\n"), "is given twice (line 2, column 1)");
  expect_one_line(train(kConfig, "--set eval.axes=[wider]"), "axes of parity");
  expect_one_line(train(kConfig, "--set model.encoding=rop"), "did you mean 'rope'?");
  expect_one_line(train(kConfig, "--set train.device=cuda"), "device");
  expect_one_line(run_lab("train " + (folder_ / "absent.yaml")), "absent.yaml");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
}

TEST_F(Mistakes, MissingCorpora) {
  expect_one_line(train("task: {language_model: {path: " + (folder_ / "no_such_text") + "}}\n"),
                  "no_such_text");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
}

TEST_F(Mistakes, RunsThatAreNotThere) {
  expect_one_line(run_lab("eval " + (folder_ / "nowhere")), "nowhere");
  expect_one_line(run_lab("eval " + (folder_ / "nowhere") + " --schedule yarrn"), "yarn");
}

TEST_F(Mistakes, ReadOnlyDirectories) {
  if (geteuid() == 0) {
    // Permissions do not hold root back; /proc takes no directories from anybody.
    const LabResult result = run_lab("train " + folder_.write("config.yaml", kConfig) +
                                     " --progress quiet --out /proc/run");
    expect_one_line(result, "/proc/run");
    return;
  }
  const std::string locked = folder_ / "locked";
  std::filesystem::create_directory(locked);
  std::filesystem::permissions(locked, std::filesystem::perms::owner_read);
  expect_one_line(run_lab("train " + folder_.write("config.yaml", kConfig) +
                          " --progress quiet --out " + locked + "/run"),
                  "locked");
}

// No file may grow past 2 KiB: the first checkpoint does not fit, as on a full disk.
TEST_F(Mistakes, FullDisk) {
  const LabResult result = train(kConfig, "", "ulimit -f 4; ");
  EXPECT_NE(result.code, 0);
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 1) << result.out;
  EXPECT_EQ(runs::RunDirectory::open(folder_ / "run", runs::Access::kRead).status().state,
            runs::RunState::kFailed);
  // With room again, it goes on.
  const LabResult again = train(kConfig, "--resume");
  EXPECT_EQ(again.code, 0) << again.out;
}

TEST_F(Mistakes, DivergenceStopsAndKeepsTheLastGoodCheckpoint) {
  const LabResult result = run_lab(
      "train " + folder_.write("config.yaml", kConfig) + " --progress plain --out " +
      (folder_ / "run") +
      " --set train.optimizer=sgd --set train.lr=100 --set train.clip=0 --set train.warmup=0"
      " --set train.steps=200 --set train.checkpoint_every=1 --set train.schedule=constant");
  EXPECT_EQ(result.code, 1) << result.out;
  EXPECT_NE(result.out.find("diverged at step"), std::string::npos) << result.out;
  const auto directory = runs::RunDirectory::open(folder_ / "run", runs::Access::kRead);
  EXPECT_EQ(directory.status().state, runs::RunState::kDiverged);
  EXPECT_EQ(run_lab("eval " + (folder_ / "run") + " --progress quiet").code, 0);
}

}  // namespace
}  // namespace posenc::testing
