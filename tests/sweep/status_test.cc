// What posenc sweep status says of a folder, from run directories, leases and Slurm's answers.
#include "sweep/status.h"

#include <gtest/gtest.h>

#include "posenc/core/error.h"
#include "runs/files.h"
#include "sweep/sweep_case.h"

namespace posenc::sweep {
namespace {

class SweepStatus : public testing::SweepCase {
 protected:
  SweepStatus() {
    std::filesystem::create_directories(plan_.file.out);
    runs::write_json(plan_.file.out / "sweep.json",
                     summary(plan_, look_up(plan_, plan_.jobs), options_, 1));
  }
  // Of another machine, in a job of Slurm.
  static Holder far_holder(const std::string& job) {
    Holder holder = this_holder("7");
    holder.host = "node1";
    holder.process = "another boot";
    holder.job = job;
    return holder;
  }
  [[nodiscard]] std::filesystem::path lease(int seed) const {
    return lease_folder(plan_.file.out, plan_.jobs[seed].hash);
  }
  // Its holder has no end, as one that works or was killed.
  void hold(int seed, const Holder& holder) {
    Watch watch;
    auto taken = Lease::take(lease(seed), holder, watch);
    ASSERT_TRUE(taken);
    const auto number = std::to_string(taken->number());
    taken.reset();
    std::filesystem::remove(lease(seed) / (number + ".end"));
  }
  RunView view(int seed, const std::map<std::string, SlurmTask>& tasks = {}) {
    return view_runs(plan_of_folder(plan_.file.out), tasks).at(seed);
  }
};

TEST_F(SweepStatus, OfAFolderThatIsNoSweepIsAnError) {
  try {
    (void)view_sweep(folder_.path());
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("is not the folder of a sweep"), std::string::npos);
  }
}

TEST_F(SweepStatus, OfRunsThatEnded) {
  act(1, "echo 'no luck'; exit 1\n");
  act(2, "status diverged 'loss is nan'; exit 1\n");
  act(3, "status failed 'the disk is full'; exit 1\n");
  options_.summary_file.clear();
  run();
  EXPECT_EQ(view(0).state, ViewState::kDone);
  EXPECT_EQ(view(0).step, 3);
  EXPECT_EQ(view(1).state, ViewState::kFailed);
  EXPECT_EQ(view(1).message, "exit code 1: no luck");
  EXPECT_EQ(view(2).state, ViewState::kDiverged);
  EXPECT_EQ(view(3).message, "the disk is full");
  EXPECT_EQ(view(3).attempts, 1);
}

TEST_F(SweepStatus, OfRunsThatAreHeld) {
  hold(0, far_holder("7_0"));
  hold(1, this_holder());
  EXPECT_EQ(view(0).state, ViewState::kHeld);
  EXPECT_EQ(view(0).holder.host, "node1");
  EXPECT_EQ(view(0, {{"7_0", {"RUNNING", ""}}}).state, ViewState::kHeld);
  EXPECT_EQ(view(1).state, ViewState::kHeld) << "this process lives";
  EXPECT_EQ(view(2).state, ViewState::kWaiting);
  EXPECT_EQ(view(0).message, "");
  std::filesystem::last_write_time(
      lease(0) / "1.beat",
      std::filesystem::file_time_type::clock::now() - std::chrono::seconds(600));
  EXPECT_EQ(view(0).state, ViewState::kHeld) << "clocks may differ: only a watcher knows";
  EXPECT_EQ(view(0).message, "no heartbeat for 600 s; a worker will take it over");
}

TEST_F(SweepStatus, OfRunsWhoseJobSlurmEnded) {
  hold(0, far_holder("7_0"));
  for (const char* state : {"TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "FAILED"}) {
    const RunView run = view(0, {{"7_0", {state, ""}}});
    EXPECT_EQ(run.state, ViewState::kFailed) << state;
    EXPECT_EQ(run.message, std::string("Slurm ended job 7_0: ") + state);
  }
  EXPECT_EQ(view(0, {{"7_0", {"CANCELLED", ""}}}).state, ViewState::kWaiting);
  EXPECT_EQ(view(0, {{"7_0", {"PENDING", "BeginTime"}}}).message, "job 7_0 is queued again");
  Holder gone = this_holder();
  gone.pid = 1 << 30;
  hold(1, gone);
  EXPECT_EQ(view(1).state, ViewState::kFailed);
  EXPECT_NE(view(1).message.find("its worker died"), std::string::npos);
}

TEST_F(SweepStatus, AFailureHasSlurmsWordToo) {
  Watch watch;
  Lease::take(lease(0), far_holder("7_0"), watch)
      ->end({AttemptState::kFailed, "signal 9 (Killed)"});
  EXPECT_EQ(view(0, {{"7_0", {"OUT_OF_MEMORY", ""}}}).message,
            "signal 9 (Killed); Slurm: OUT_OF_MEMORY");
  EXPECT_EQ(view(0, {{"7_0", {"FAILED", "NonZeroExitCode"}}}).message, "signal 9 (Killed)");
}

TEST_F(SweepStatus, RetryChoosesWhatFailed) {
  act(1, "echo 'no luck'; exit 1\n");
  options_.summary_file.clear();
  options_.holder = this_holder("submission 7");
  own_session_ = false;
  run();
  std::filesystem::remove_all(plan_.jobs[4].folder);
  hold(4, far_holder("7_0"));
  SweepView whole{.plan = plan_of_folder(plan_.file.out)};
  whole.runs = view_runs(whole.plan, {{"7_0", {"TIMEOUT", ""}}});
  const auto chosen = runs_to_retry(whole, {});
  ASSERT_EQ(chosen.size(), 2U);
  EXPECT_EQ(chosen[0].job.name, "seed1");
  EXPECT_EQ(runs_to_retry(whole, {"seed1"}).size(), 1U);
  EXPECT_THROW((void)runs_to_retry(whole, {"seed0"}), Error) << "finished";
  EXPECT_THROW((void)runs_to_retry(whole, {"seed9"}), Error) << "unknown";
  for (const RunView& run : chosen) mark_retry(plan_.file.out, run);
  EXPECT_EQ(view(1).state, ViewState::kWaiting);
  act(1, "");
  EXPECT_EQ(tally(run()).finished, 2U) << "in the session in which it failed";
}

TEST_F(SweepStatus, HasNamesAndCountsAsJson) {
  hold(0, far_holder("7_0"));
  SweepView whole{.plan = plan_of_folder(plan_.file.out)};
  whole.tasks = {{"7_0", {"RUNNING", ""}}};
  whole.submissions = {{.job = "7", .script = "x.sh", .tasks = 1, .submitted = ""}};
  whole.runs = view_runs(whole.plan, whole.tasks);
  const Value value = view_value(whole);
  EXPECT_EQ(*value.find("counts")->find("held")->get_if<std::int64_t>(), 1);
  EXPECT_EQ(*value.find("counts")->find("waiting")->get_if<std::int64_t>(), 4);
  const Value& run = value.find("runs")->get_if<Value::List>()->front();
  EXPECT_EQ(*run.find("host")->get_if<std::string>(), "node1");
  EXPECT_EQ(*run.find("job")->get_if<std::string>(), "7_0");
  EXPECT_EQ(submission_lines(plan_.file.out, whole),
            (std::vector<std::string>{"job 7: 1 RUNNING"}));
}

}  // namespace
}  // namespace posenc::sweep
