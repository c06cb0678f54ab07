// Sweeps with a trainer that is a few lines of shell.
#include "sweep/run.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <thread>

#include "posenc/core/error.h"
#include "runs/files.h"
#include "runs/run_directory.h"
#include "sweep/sweep_case.h"

namespace posenc::sweep {
namespace {

using testing::write_content;

using Sweep = testing::SweepCase;

TEST_F(Sweep, RunsEachJobOnceWithItsShareOfThreads) {
  std::size_t most = 0;
  Observer observer;
  observer.ended = [&](const JobReport&, const std::vector<JobReport>& all) {
    most = std::max(most, tally(all).running + 1);
  };
  const auto reports = run(observer);
  EXPECT_EQ(tally(reports).finished, 5U);
  EXPECT_EQ(count("start resume=no threads=3 omp=3"), 5U) << calls();
  EXPECT_LE(most, 2U);
  for (const JobReport& report : reports) {
    EXPECT_EQ(report.state, JobState::kFinished);
    EXPECT_TRUE(report.ran);
    EXPECT_GT(report.seconds, 0.0);
  }
}

TEST_F(Sweep, WhatIsFinishedIsSkippedWhateverItsFolderIsCalled) {
  run();
  std::filesystem::rename(plan_.jobs[0].folder, folder_ / "out/renamed");
  const auto reports = run();
  EXPECT_EQ(tally(reports).skipped, 5U);
  EXPECT_EQ(count("start"), 5U) << "nothing ran again";
  EXPECT_EQ(reports[0].job.folder.filename().string(), "renamed");
  std::filesystem::remove_all(folder_ / "out/renamed");
  EXPECT_EQ(tally(run()).finished, 1U);
}

TEST_F(Sweep, AnotherEvaluationIsEvaluatedAgainAndNotTrainedAgain) {
  run();
  write_content(plan_.jobs[1].folder / "results.json", "{\"eval_hash\": \"another\"}");
  write_content(plan_.jobs[2].folder / "results.json", "{}");  // older than the field
  write_content(plan_.jobs[3].folder / "results.json", "{\"eval_hash");
  const auto before = look_up(plan_, plan_.jobs);
  EXPECT_EQ(before[0].state, JobState::kFinished);
  EXPECT_EQ(before[1].state, JobState::kResume);
  EXPECT_NE(before[1].message.find("evaluation"), std::string::npos);
  EXPECT_EQ(before[2].state, JobState::kResume);
  EXPECT_EQ(before[3].state, JobState::kResume) << "damaged";
  const auto reports = run();
  EXPECT_EQ(tally(reports).skipped, 2U);
  EXPECT_EQ(tally(reports).finished, 3U);
  EXPECT_EQ(count("start resume=yes"), 3U) << calls();
  EXPECT_EQ(tally(run()).skipped, 5U) << "and then it is done";
}

TEST_F(Sweep, AFailureDoesNotStopTheRestAndIsTriedAgain) {
  act(1, "echo working; echo '[tiny] it broke' >&2; exit 1\n");
  act(2, "kill -9 $$\n");
  act(3, "status failed 'the disk is full'; exit 1\n");
  act(4, "exit 0\n");  // without a run
  const auto reports = run();
  EXPECT_EQ(tally(reports).failed, 4U);
  EXPECT_EQ(tally(reports).finished, 1U);
  EXPECT_EQ(reports[1].message, "exit code 1: [tiny] it broke");
  EXPECT_NE(reports[2].message.find("signal 9"), std::string::npos);
  EXPECT_EQ(reports[3].message, "the disk is full");
  EXPECT_NE(reports[4].message.find("without a finished run"), std::string::npos);
  for (const int seed : {1, 2, 3, 4}) act(seed, "");
  const auto again = run();
  EXPECT_EQ(tally(again).finished, 4U);
  EXPECT_EQ(count("start resume=yes"), 1U) << "only one had a run to go on with\n" << calls();
}

TEST_F(Sweep, AJobThatDivergedStaysSo) {
  act(0, "status diverged 'loss is nan at step 3'; exit 1\n");
  auto reports = run();
  EXPECT_EQ(reports[0].state, JobState::kDiverged);
  EXPECT_EQ(reports[0].message, "loss is nan at step 3");
  reports = run();
  EXPECT_EQ(tally(reports).diverged, 1U);
  EXPECT_EQ(count("seed=0"), 1U);
}

TEST_F(Sweep, ATrainerThatIsMissingFailsEveryJobAndSaysSo) {
  options_.trainer = {folder_ / "nowhere"};
  const auto reports = run();
  EXPECT_EQ(tally(reports).failed, 5U);
  EXPECT_NE(reports[0].message.find("could not be started"), std::string::npos);
}

TEST_F(Sweep, ASignalIsForwardedAndTheRunsAreResumed) {
  for (int seed = 0; seed < 5; ++seed) {
    act(seed,
        "trap 'status stopped; say saved; exit 143' TERM\nstatus running\nsay ready\n"
        "[ $resume = yes ] || while :; do sleep 0.02; done\n");
  }
  int signal = 0;
  options_.stop = [&] {
    if (count("ready") == 2) signal = SIGTERM;
    return signal;
  };
  const auto reports = run();
  EXPECT_EQ(count("saved"), 2U) << "each of the two that ran, once";
  EXPECT_EQ(tally(reports).stopped, 2U);
  EXPECT_EQ(tally(reports).waiting, 3U) << "no further job was started";
  for (int seed = 2; seed < 5; ++seed) act(seed, "");
  options_.stop = [] { return 0; };
  const auto again = look_up(plan_, plan_.jobs);
  EXPECT_EQ(again[0].state, JobState::kResume);
  EXPECT_EQ(again[2].state, JobState::kNew);
  EXPECT_EQ(tally(run()).finished, 5U);
  EXPECT_EQ(count("start resume=yes"), 2U);
}

TEST_F(Sweep, AJobThatASchedulerStoppedBeforeTheSweepNoticedHasNotFailed) {
  act(0, "status stopped 'by a signal'; echo $$ > \"$here/pid\"; say ended; exit 143\n");
  options_.jobs = 1;
  bool gone = false;
  // No signal until the job is gone; one when the sweep asks again, as it judges the job.
  options_.stop = [&] {
    if (gone) return SIGTERM;
    if (count("ended") == 0) return 0;
    const std::string stat =
        "/proc/" + std::to_string(std::stoi(testing::file_content(folder_ / "pid")));
    while (testing::file_content(stat + "/stat").find(") Z") == std::string::npos) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    gone = true;
    return 0;
  };
  const auto reports = run();
  EXPECT_EQ(reports[0].state, JobState::kStopped);
  EXPECT_EQ(tally(reports).waiting, 4U);
}

TEST_F(Sweep, JobsThatDoNotEndAreKilledWhenAsked) {
  act(0, "trap 'say deaf' TERM\nsay ready\nwhile :; do sleep 0.02; done\n");
  options_.jobs = 1;
  options_.stop = [&] { return count("ready") == 1 ? SIGTERM : 0; };
  options_.kill = [&] { return count("deaf") == 1; };
  const auto reports = run();
  EXPECT_EQ(reports[0].state, JobState::kStopped);
  EXPECT_EQ(count("deaf"), 1U);
  EXPECT_EQ(tally(reports).waiting, 4U);
}

TEST_F(Sweep, ARunThatAnotherProcessTrainsIsLeftAlone) {
  const auto other = runs::RunDirectory::create(
      plan_.jobs[3].folder, {.config = "", .config_hash = plan_.jobs[3].hash, .environment = {}});
  const auto reports = run();
  EXPECT_EQ(reports[3].state, JobState::kInUse);
  EXPECT_EQ(tally(reports).finished, 4U);
  EXPECT_EQ(count("seed=3"), 0U);
}

TEST_F(Sweep, AJobThatAnotherProcessHoldsIsLeftAlone) {
  Watch watch;
  auto lease = Lease::take(lease_folder(plan_.file.out, plan_.jobs[2].hash), this_holder(), watch);
  ASSERT_TRUE(lease);
  const auto reports = run();
  EXPECT_EQ(reports[2].state, JobState::kInUse);
  EXPECT_NE(reports[2].message.find("held by host "), std::string::npos) << reports[2].message;
  EXPECT_EQ(tally(reports).finished, 4U);
  EXPECT_EQ(count("seed=2"), 0U);
  lease->end({AttemptState::kStopped, ""});
  EXPECT_EQ(tally(run()).finished, 1U);
}

// As a worker of another machine whose heartbeat is not seen.
Holder far_worker(double limit) {
  Holder holder = this_holder("", limit);
  holder.process = "another boot";
  return holder;
}

TEST_F(Sweep, AJobOfADeadWorkerOfAnotherMachineIsTakenOver) {
  Watch watch;
  auto lease =
      Lease::take(lease_folder(plan_.file.out, plan_.jobs[2].hash), far_worker(0.2), watch);
  const auto reports = run();
  EXPECT_EQ(tally(reports).finished, 5U) << "it waits for the limit and no longer";
  EXPECT_EQ(attempts(lease_folder(plan_.file.out, plan_.jobs[2].hash)).size(), 2U);
}

TEST_F(Sweep, AJobOfALivingWorkerOfAnotherMachineIsLeftToIt) {
  Watch watch;
  auto lease =
      Lease::take(lease_folder(plan_.file.out, plan_.jobs[2].hash), far_worker(3.0), watch);
  std::atomic<bool> done = false;
  std::thread beats([&] {
    while (!done) {
      EXPECT_TRUE(lease->keep());
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  });
  const auto reports = run();
  done = true;
  beats.join();
  EXPECT_EQ(reports[2].state, JobState::kInUse);
  EXPECT_EQ(count("seed=2"), 0U);
}

TEST_F(Sweep, AJobWhoseLeaseIsLostIsKilled) {
  act(0, "say ready\nwhile :; do sleep 0.02; done\n");
  options_.jobs = 1;
  options_.holder.limit = 0.3;
  own_session_ = false;
  const auto folder = lease_folder(plan_.file.out, plan_.jobs[0].hash);
  options_.stop = [&] {
    // Another worker took it over, as if this one had not answered for a while.
    if (count("ready") == 1) write_content(folder / "2", "{}");
    return 0;
  };
  const auto reports = run();
  EXPECT_EQ(reports[0].state, JobState::kInUse);
  EXPECT_NE(reports[0].message.find("lease was lost"), std::string::npos);
  EXPECT_EQ(tally(reports).finished, 4U);
  EXPECT_FALSE(runs::RunDirectory::exists(plan_.jobs[0].folder));
}

TEST_F(Sweep, WorkersOfOneSubmissionDoNotRepeatAFailure) {
  act(1, "echo 'no luck'; exit 1\n");
  options_.holder = this_holder("job 7");
  own_session_ = false;
  EXPECT_EQ(tally(run()).failed, 1U);
  const auto reports = run();
  EXPECT_EQ(reports[1].state, JobState::kFailed);
  EXPECT_EQ(reports[1].message, "exit code 1: no luck");
  EXPECT_FALSE(reports[1].ran);
  EXPECT_EQ(count("seed=1"), 1U);
  options_.holder = this_holder("job 8");
  run();
  EXPECT_EQ(count("seed=1"), 2U) << "the next submission tries again";
}

TEST_F(Sweep, AJobThatKillsItsWorkersIsGivenUp) {
  options_.holder = this_holder("job 7");
  own_session_ = false;
  const auto folder = lease_folder(plan_.file.out, plan_.jobs[1].hash);
  for (int death = 0; death < 2; ++death) {
    Watch watch;
    { ASSERT_TRUE(Lease::take(folder, options_.holder, watch)); }
    std::filesystem::remove(folder / (std::to_string(death + 1) + ".end"));
    // A process that is gone.
    std::string holder = testing::file_content(folder / std::to_string(death + 1));
    holder.replace(holder.find("\"pid\":"), 6, "\"pid\":99");
    write_content(folder / std::to_string(death + 1), holder);
  }
  const auto reports = run();
  EXPECT_EQ(reports[1].state, JobState::kFailed);
  EXPECT_EQ(reports[1].message, "its worker died 2 times");
  EXPECT_EQ(count("seed=1"), 0U);
  EXPECT_EQ(tally(reports).finished, 4U);
}

TEST_F(Sweep, SeveralSweepsInOneFolderRunEachJobOnce) {
  std::vector<pid_t> children;
  for (int i = 0; i < 6; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      options_.first = static_cast<std::size_t>(i);
      run();
      ::_exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) ::waitpid(child, nullptr, 0);
  for (int seed = 0; seed < 5; ++seed) {
    EXPECT_EQ(count("seed=" + std::to_string(seed)), 1U) << calls();
  }
  EXPECT_EQ(tally(run()).skipped, 5U);
}

TEST_F(Sweep, TheSummaryIsThereAfterEveryJob) {
  act(4, "echo 'no luck'; exit 1\n");
  std::vector<std::int64_t> ended;
  Observer observer;
  observer.started = [&](const JobReport&) {
    const Value value = runs::read_json(folder_ / "out/sweep.json");
    ended.push_back(*value.find("counts")->find("finished")->get_if<std::int64_t>());
  };
  options_.jobs = 1;
  run(observer);
  EXPECT_EQ(ended, (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
  const Value value = runs::read_json(folder_ / "out/sweep.json");
  EXPECT_EQ(*value.find("counts")->find("failed")->get_if<std::int64_t>(), 1);
  EXPECT_EQ(*value.find("jobs_at_once")->get_if<std::int64_t>(), 1);
  const Value& last = value.find("jobs")->get_if<Value::List>()->back();
  EXPECT_EQ(*last.find("state")->get_if<std::string>(), "failed");
  EXPECT_EQ(*last.find("message")->get_if<std::string>(), "exit code 1: no luck");
  EXPECT_EQ(*last.find("hash")->get_if<std::string>(), plan_.jobs[4].hash);
}

TEST_F(Sweep, TheSummaryHasTheJobsAtOnceThatWerePossible) {
  const auto at_once = [&] {
    run();
    const Value value = runs::read_json(folder_ / "out/sweep.json");
    return *value.find("jobs_at_once")->get_if<std::int64_t>();
  };
  options_.jobs = 64;
  EXPECT_EQ(at_once(), 5) << "as in environment.json: no more than there are to run";
  std::filesystem::remove_all(plan_.jobs[1].folder);
  std::filesystem::remove_all(plan_.jobs[3].folder);
  EXPECT_EQ(at_once(), 2);
}

}  // namespace
}  // namespace posenc::sweep
