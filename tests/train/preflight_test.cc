// What cannot be evaluated is said before the first step, in one line that names the field. Before, each of
// these trained to the end and then failed, or printed frames of C++.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>

#include "runs/run_directory.h"
#include "support/sanitizers.h"
#include "train/lab_process.h"

namespace posenc::testing {
namespace {

constexpr const char* kConfig = R"(task: parity
model: {encoding: rope, layers: 1, dim: 16, heads: 2}
train: {length: 8, batch: 4, steps: 3}
eval: {samples: 8, factors: [1, 2]}
)";

class Preflight : public ::testing::Test {
 protected:
  [[nodiscard]] std::string run() const { return folder_ / "run"; }
  [[nodiscard]] LabResult train(const std::string& more, const std::string& config = kConfig,
                                const std::string& progress = "quiet") const {
    return run_lab("train " + folder_.write("config.yaml", config) + " --progress " + progress +
                       " --out " + run() + " " + more,
                   "timeout -k 5 120 ");
  }
  // Exit 2, one line with these parts, and no directory of a run.
  void expect_refused(const LabResult& result, const std::vector<std::string>& parts) const {
    EXPECT_EQ(result.code, 2) << result.out;
    EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 1) << result.out;
    for (const std::string& part : parts) {
      EXPECT_NE(result.out.find(part), std::string::npos) << part << "\n" << result.out;
    }
    EXPECT_FALSE(std::filesystem::exists(run()));
  }
  [[nodiscard]] runs::RunStatus status() const {
    return runs::RunDirectory::open(run(), runs::Access::kRead).status();
  }
  Folder folder_;
};

TEST_F(Preflight, ACorpusWithoutHeldOutFiles) {
  const std::string text = folder_.write("only.txt", std::string(4000, 'x'));
  const std::string config = "task: {language_model: {path: " + text +
                             "}}\nmodel: {layers: 1, dim: 16, heads: 2}\n"
                             "train: {length: 8, batch: 4, steps: 3}\n";
  expect_refused(train("", config), {"test_share", "eval.factors"});
  expect_refused(train("--no-eval --set train.eval_every=1", config),
                 {"validation_share", "train.eval_every"});
  EXPECT_EQ(train("--no-eval", config).code, 0) << "an evaluation is what needs them";
}

TEST_F(Preflight, LengthsThatDoNotFitIntoMemory) {
  expect_refused(train("--set eval.factors=[1,100000000]"), {"eval.factors"});  // by its range
  expect_refused(
      train("--set eval.factors=[1000000] --set train.length=100000 --set train.batch=1"),
      {"[memory] eval.factors", " are available"});
}

TEST_F(Preflight, ModelsThatDoNotFitIntoMemory) {
  expect_refused(train("--set model.dim=65536 --set model.layers=1024"),
                 {"[memory] model.dim", "lower model.dim or model.layers"});
  expect_refused(train("--set train.batch=1000000 --set train.length=1000000"),
                 {"[memory] train.batch", "train.accumulate"});
}

TEST_F(Preflight, PositionsPastATable) {
  expect_refused(train("--set \"model.encoding=learned(max_positions=16)\" --set train.length=32"),
                 {"train.length must be at most 16", "max_positions"});
  expect_refused(
      train("--set \"model.encoding=learned(max_positions=16)\" --set train.positions=shift "
            "--set train.position_range=17"),
      {"train.position_range must be at most 16"});
  expect_refused(
      train("--set \"model.encoding=learned(max_positions=16)\" --set eval.axes=[longer] "
            "--set eval.factors=[4,8]"),
      {"factors must have a length within the table of positions, which ends at 16"});
  const LabResult rest = train(
      "--set \"model.encoding=learned(max_positions=16)\" --set "
      "eval.factors=[1,2,4]",
      kConfig, "plain");
  EXPECT_EQ(rest.code, 0) << rest.out;
  EXPECT_LT(rest.out.find("evaluations skip, past the table of positions (16): 32"),
            rest.out.find("3/3"))
      << "said before the first step\n"
      << rest.out;
}

TEST_F(Preflight, LengthsWithoutSamples) {
  std::filesystem::create_directory(folder_ / "texts");
  for (int i = 0; i < 10; ++i) {
    folder_.write("texts/" + std::to_string(i), std::string(20'000, static_cast<char>('a' + i)));
  }
  const std::string config = "task: {language_model: {path: " + (folder_ / "texts") +
                             "}}\nmodel: {layers: 1, dim: 16, heads: 2}\n"
                             "train: {length: 8, batch: 4, steps: 3}\n";
  expect_refused(train("--set eval.axes=[longer] --set eval.lengths=[50000]", config),
                 {"longest_context", "axis longer at length 50000", "eval.lengths"});
}

TEST_F(Preflight, AnEvaluationChecksFirstToo) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's own memory is counted too";
  ASSERT_EQ(train("").code, 0);
  const LabResult result = run_lab("eval " + run() +
                                       " --progress quiet --set eval.lengths=[100000000] --set "
                                       "eval.samples=1",
                                   "ulimit -v 16000000; timeout -k 5 120 ");
  EXPECT_EQ(result.code, 2) << result.out;
  EXPECT_EQ(result.out.rfind("posenc: [memory] eval.lengths", 0), 0U) << result.out;
}

TEST_F(Preflight, ALimitOnAddressSpaceCounts) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's own memory is counted too";
  const LabResult result = run_lab("train " + folder_.write("config.yaml", kConfig) +
                                       " --progress quiet --set model.dim=1024 --set "
                                       "model.layers=24 --out " +
                                       run(),
                                   "ulimit -v 4000000; ");
  expect_refused(result, {"[memory] model.dim"});
}

// What libtorch throws carries frames of C++.
TEST_F(Preflight, FailuresOfLibtorchAreOneLine) {
  ASSERT_EQ(train("").code, 0);
  const LabResult result = run_lab("eval " + run() + " --progress quiet --set model.dim=32 --out " +
                                   (folder_ / "other.json"));
  EXPECT_EQ(result.code, 1) << result.out;
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 1) << result.out;
  EXPECT_NE(result.out.find("in the checkpoint and"), std::string::npos) << result.out;
}

// Of a run that trained to its end, whatever became of its evaluation.
TEST_F(Preflight, ARunWhoseEvaluationFailedIsEvaluatedAndCounts) {
  ASSERT_EQ(train("").code, 0);
  std::filesystem::remove(run() + "/results.json");
  {
    const auto directory = runs::RunDirectory::open(run());
    auto failed = directory.status();
    failed.state = runs::RunState::kFailed;
    failed.message = "no memory";
    directory.set_status(failed);
  }
  const LabResult result = run_lab("eval " + run() + " --progress quiet --set eval.factors=[1]");
  ASSERT_EQ(result.code, 0) << result.out;
  EXPECT_EQ(status().state, runs::RunState::kFinished);
  EXPECT_EQ(status().message, "");
  EXPECT_EQ(status().step, 3);
  EXPECT_TRUE(std::filesystem::exists(run() + "/results.json"));
}

TEST_F(Preflight, ARunThatWasCutOffIsNotFinishedByAnEvaluation) {
  ASSERT_EQ(train("--set train.checkpoint_every=2").code, 0);
  std::filesystem::remove_all(run() + "/checkpoints/step-00000003");
  {
    const auto directory = runs::RunDirectory::open(run());
    auto stopped = directory.status();
    stopped.state = runs::RunState::kStopped;
    directory.set_status(stopped);
  }
  ASSERT_EQ(run_lab("eval " + run() + " --progress quiet").code, 0);
  EXPECT_EQ(status().state, runs::RunState::kStopped);
}

TEST_F(Preflight, FifosInPlaceOfFiles) {
  const std::string fifo = folder_ / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const std::string refusal = "is a FIFO, not a regular file";
  expect_refused(run_lab("train " + fifo + " --progress quiet", "timeout -k 5 120 "), {refusal});
  expect_refused(train("", "task: {language_model: {path: " + fifo + "}}\n"), {refusal});
  const std::string in_time = "timeout -k 5 120 ";
  ASSERT_EQ(train("").code, 0);
  std::filesystem::rename(run(), folder_ / "trained");
  for (const std::string name :
       {"/config.yaml", "/.lock", "/status.json", "/checkpoints/step-00000003/manifest.json",
        "/checkpoints/step-00000003/model.safetensors", "/metrics.jsonl"}) {
    std::filesystem::copy(folder_ / "trained", run(), std::filesystem::copy_options::recursive);
    std::filesystem::remove(run() + name);
    ASSERT_EQ(::mkfifo((run() + name).c_str(), 0600), 0);
    const LabResult evaluated = run_lab("eval " + run() + " --progress plain", in_time);
    const LabResult resumed = train("--resume", kConfig, "plain");
    EXPECT_NE(evaluated.code, 124) << name;
    EXPECT_NE(resumed.code, 124) << name;
    EXPECT_NE((evaluated.out + resumed.out).find(refusal), std::string::npos)
        << name << "\n"
        << evaluated.out << resumed.out;
    std::filesystem::remove_all(run());
  }
}

}  // namespace
}  // namespace posenc::testing
