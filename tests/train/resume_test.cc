// A run that was cut off and taken up again is the run that was not: every weight, every moment, every
// number of metrics.jsonl but the clock's.
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <thread>

#include "core/value.h"
#include "posenc/core/rng.h"
#include "runs/checkpoints.h"
#include "runs/metrics.h"
#include "runs/run_directory.h"
#include "train/lab_process.h"

namespace posenc::testing {
namespace {

// Two stages of so many steps.
std::string config_of(int steps) {
  const std::string text = R"(task: {selective_counting: {density: 0.3, cap: 4, max_label: 31}}
model: {encoding: rope + cope(npos_max=8), layers: 2, dim: 16, heads: 2, dropout: 0.1,
        attention_dropout: 0.1}
train:
  stages: [{length: 12, batch: 8, steps: STEPS}, {length: 20, batch: 4, steps: STEPS}]
  positions: subset
  position_range: 24
  accumulate: 2
  log_every: 7
  eval_every: 20
  eval_samples: 16
  checkpoint_every: 5
  keep_last: 3
eval: {samples: 16, factors: [1, 2]}
)";
  return std::regex_replace(text, std::regex("STEPS"), std::to_string(steps));
}

using Bytes = std::map<std::string, std::vector<std::byte>>;

Bytes tensors_of(const std::string& run) {
  const runs::CheckpointReader reader(std::filesystem::path(run) / "checkpoints");
  const auto checkpoint = reader.load_latest();
  Bytes all;
  if (!checkpoint) return all;
  for (const auto& [group, file] : checkpoint->groups) {
    for (const auto& info : file.tensors()) all[group + "/" + info.name] = file.read(info);
  }
  return all;
}

Value without_clock(const Value& row) {
  Value::Map kept;
  for (const Member& member : *row.get_if<Value::Map>()) {
    if (member.key == "seconds" || member.key == "tokens_per_s") continue;
    kept.push_back(member);
  }
  return {Value::Data(std::move(kept))};
}

std::vector<Value> metrics_of(const std::string& run) {
  std::vector<Value> rows;
  for (const Value& row : runs::read_metrics(std::filesystem::path(run) / "metrics.jsonl")) {
    rows.push_back(without_clock(row));
  }
  return rows;
}

void expect_same_run(const std::string& a, const std::string& b) {
  const Bytes whole = tensors_of(a);
  ASSERT_FALSE(whole.empty());
  EXPECT_EQ(whole, tensors_of(b));
  const auto rows = metrics_of(a);
  const auto again = metrics_of(b);
  ASSERT_EQ(rows.size(), again.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i], again[i]) << to_json(rows[i]) << "\n" << to_json(again[i]);
  }
}

std::int64_t steps_done(const std::string& run) {
  const runs::CheckpointReader reader(std::filesystem::path(run) / "checkpoints");
  const auto list = reader.list();
  return list.empty() ? 0 : list.back().step;
}

void expect_sound_checkpoints(const std::string& run) {
  const runs::CheckpointReader reader(std::filesystem::path(run) / "checkpoints");
  for (const auto& info : reader.list()) EXPECT_EQ(info.problem, "") << info.path;
}

// Loading libtorch takes its time, longer on a busy machine.
void wait_for_steps(LabProcess& process, const std::string& run, std::int64_t before) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (process.running() && steps_done(run) == before &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

class Resume : public ::testing::Test {
 protected:
  void SetUp() override { train_whole(30); }
  void train_whole(int steps) {
    config_ = folder_.write("config.yaml", config_of(steps));
    const LabResult whole =
        run_lab("train " + config_ + " --out " + (folder_ / "whole") + " --progress quiet");
    ASSERT_EQ(whole.code, 0) << whole.out;
  }
  [[nodiscard]] std::vector<std::string> words(const std::string& out) const {
    return {"train", config_, "--out", folder_ / out, "--resume"};
  }

  // Trains with SIGKILLs at moments that have nothing to do with the steps, each after at least one
  // checkpoint more than the one before, until the run has ended or was killed so often. Returns how often.
  int train_and_kill(const std::string& run, int most) {
    Rng rng(2024);
    for (int kills = 0; kills < most; ++kills) {
      LabProcess process(words("killed"));
      const std::int64_t before = steps_done(run);
      wait_for_steps(process, run, before);
      std::this_thread::sleep_for(std::chrono::milliseconds(rng.integer(0, 60)));
      process.send(SIGKILL);
      if (process.wait() != -SIGKILL) return kills;
      EXPECT_GE(steps_done(run), before);  // nothing that was saved is lost
      expect_sound_checkpoints(run);
    }
    return most;
  }
  void expect_kills_change_nothing(int most, int least) {
    const std::string run = folder_ / "killed";
    EXPECT_GE(train_and_kill(run, most), least);
    const LabResult rest =
        run_lab("train " + config_ + " --out " + run + " --resume --progress quiet");
    EXPECT_EQ(rest.code, 0) << rest.out;
    expect_same_run(folder_ / "whole", run);
  }

  Folder folder_;
  std::string config_;
};

TEST_F(Resume, KilledAtRandomMomentsItIsTheSameRun) { expect_kills_change_nothing(4, 2); }

// Steps enough for twenty kills on a fast machine.
class SlowResume : public Resume {
 protected:
  void SetUp() override { train_whole(400); }
};

TEST_F(SlowResume, KilledTwentyTimesItIsTheSameRun) { expect_kills_change_nothing(20, 20); }

TEST_F(Resume, StoppedByASignalItSavesAndIsTheSameRun) {
  {
    LabProcess process(words("stopped"));
    while (process.running() && steps_done(folder_ / "stopped") == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    process.send(SIGTERM);
    const int code = process.wait();
    EXPECT_TRUE(code == 128 + SIGTERM || code == 0) << code;
  }
  const LabResult rest = run_lab("train " + config_ + " --out " + (folder_ / "stopped") +
                                 " --resume --progress quiet");
  EXPECT_EQ(rest.code, 0) << rest.out;
  expect_same_run(folder_ / "whole", folder_ / "stopped");
}

// Far too short for a step, on any machine.
TEST_F(Resume, StoppedByATimeBoxItIsTheSameRun) {
  const std::string train =
      "train " + config_ + " --out " + (folder_ / "boxed") + " --resume --progress plain";
  const LabResult boxed = run_lab(train + " --minutes 0.0001");
  EXPECT_EQ(boxed.code, 75) << boxed.out;
  const auto status = runs::RunDirectory::open(folder_ / "boxed", runs::Access::kRead).status();
  EXPECT_EQ(status.state, runs::RunState::kStopped);
  EXPECT_EQ(status.message, "by the time box of 0.0001 minutes");
  const LabResult rest = run_lab(train + " --minutes 60");
  EXPECT_EQ(rest.code, 0) << rest.out;
  expect_same_run(folder_ / "whole", folder_ / "boxed");
}

// Weights that hardly change score the same at every evaluation: the first is the best, and falls on no checkpoint.
TEST_F(Resume, TheBestCheckpointIsThatOfTheBestEvaluation) {
  const std::string run = folder_ / "best";
  const LabResult trained =
      run_lab("train " + config_ + " --progress quiet --no-eval --out " + run +
              " --set train.eval_every=7 --set train.checkpoint_every=0 --set train.lr=1e-30" +
              " --set train.weight_decay=0");
  ASSERT_EQ(trained.code, 0) << trained.out;
  const auto kept = runs::CheckpointReader(std::filesystem::path(run) / "checkpoints").best();
  ASSERT_TRUE(kept.has_value());
  EXPECT_EQ(kept->step, 7);
}

TEST_F(Resume, ADamagedCheckpointGivesWayToTheOneBefore) {
  const std::string run = folder_ / "whole";
  const runs::CheckpointReader reader(std::filesystem::path(run) / "checkpoints");
  const auto last = reader.list().back();
  std::filesystem::resize_file(last.path / "model.safetensors",
                               std::filesystem::file_size(last.path / "model.safetensors") / 2);
  std::filesystem::copy(run, folder_ / "copy", std::filesystem::copy_options::recursive);
  const LabResult again =
      run_lab("train " + config_ + " --out " + (folder_ / "copy") + " --resume --progress plain");
  EXPECT_EQ(again.code, 0) << again.out;
  EXPECT_NE(again.out.find("goes on from step 55"), std::string::npos) << again.out;
  EXPECT_EQ(runs::RunDirectory::open(folder_ / "copy", runs::Access::kRead).status().state,
            runs::RunState::kFinished);
}

TEST_F(Resume, MoreStepsAreTheSameRunOrRefused) {
  const auto train = [&](const std::string& out, const std::string& more) {
    return run_lab("train " + config_ + " --out " + (folder_ / out) +
                   " --progress quiet --set train.stages=[] --set train.length=12 --set "
                   "train.batch=8 --set train.warmup=3" +
                   more);
  };
  const std::string lasting = " --set train.schedule=constant --set train.steps=";
  EXPECT_EQ(train("at_once", lasting + "24").code, 0);
  EXPECT_EQ(train("extended", lasting + "16").code, 0);
  const LabResult more = train("extended", lasting + "24 --resume");
  EXPECT_EQ(more.code, 0) << more.out;
  EXPECT_EQ(tensors_of(folder_ / "at_once"), tensors_of(folder_ / "extended"));
  EXPECT_EQ(train("falling", " --set train.steps=16").code, 0);
  const LabResult falling = train("falling", " --set train.steps=24 --resume");
  EXPECT_EQ(falling.code, 2);
  EXPECT_NE(falling.out.find("train.steps cannot be extended"), std::string::npos) << falling.out;
}

TEST_F(Resume, ResultsOfARunAreOfItsOwnTaskAndModel) {
  const std::string eval = "eval " + (folder_ / "whole") + " --progress quiet --set ";
  for (const std::string field :
       {"model.window=4", "train.length=20", "task.selective_counting.cap=3"}) {
    const LabResult refused = run_lab(eval + field);
    EXPECT_EQ(refused.code, 2) << refused.out;
    EXPECT_NE(refused.out.find("cannot be changed in the results of a run"), std::string::npos)
        << refused.out;
  }
  EXPECT_EQ(run_lab(eval + "model.window=4 --out " + (folder_ / "other.json")).code, 0);
  const LabResult replaced =
      run_lab(eval + "model.window=4 --out " + (folder_ / "whole/results.json"));
  EXPECT_EQ(replaced.code, 2) << replaced.out;
  EXPECT_NE(replaced.out.find("is a file of a run, which must not be replaced"), std::string::npos)
      << replaced.out;
  EXPECT_EQ(run_lab(eval + "eval.samples=8").code, 0);
}

TEST_F(Resume, AnotherConfigIsRefused) {
  const LabResult other =
      run_lab("train " + config_ + " --set train.lr=0.5 --resume --out " + (folder_ / "whole"));
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.out.find("holds a run of another config"), std::string::npos) << other.out;
  const LabResult again = run_lab("train " + config_ + " --out " + (folder_ / "whole"));
  EXPECT_EQ(again.code, 2) << again.out;
}

// A finished run is only evaluated: the speed that it tells is of its training.
TEST_F(Resume, ARunSaysHowManyJobsSharedTheMachineWhileItTrained) {
  const auto jobs = [&] {
    const auto run = runs::RunDirectory::open(folder_ / "whole", runs::Access::kRead);
    return to_json(*run.environment().find("jobs_at_once"));
  };
  const auto go_on = [&] {
    return run_lab(
        "train " + config_ + " --out " + (folder_ / "whole") + " --resume --progress quiet",
        "POSENC_JOBS_AT_ONCE=4 ");
  };
  EXPECT_EQ(jobs(), "null") << "no sweep started it";
  EXPECT_EQ(go_on().code, 0);
  EXPECT_EQ(jobs(), "null");
  {
    const auto run = runs::RunDirectory::open(folder_ / "whole");
    runs::RunStatus status = run.status();
    status.state = runs::RunState::kStopped;
    run.set_status(status);
  }
  EXPECT_EQ(go_on().code, 0);
  EXPECT_EQ(jobs(), "4");
}

}  // namespace
}  // namespace posenc::testing
