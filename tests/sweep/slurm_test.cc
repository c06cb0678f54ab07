// The script of an array job, and what Slurm's programs answer.
#include "sweep/slurm.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <functional>

#include "posenc/core/error.h"
#include "support/temporary_folder.h"
#include "sweep/sweep_case.h"

namespace posenc::sweep {
namespace {

TEST(SlurmScript, HasWhatWasAskedForAndNothingElse) {
  EXPECT_EQ(slurm_script({.tasks = 4}, "theta", "/shared/runs/theta", "/home/me",
                         {"/bin/posenc", "sweep", "grid.yaml", "--set", "name=it's"}),
            "#!/bin/bash\n"
            "# Written by posenc sweep --on slurm. Each task of the array trains the runs that no "
            "other task holds.\n"
            "#SBATCH --job-name=posenc-theta\n"
            "#SBATCH --array=0-3\n"
            "#SBATCH --ntasks=1\n"
            "#SBATCH --requeue\n"
            "#SBATCH --open-mode=append\n"
            "#SBATCH --signal=B:TERM@120\n"
            "#SBATCH --output=/shared/runs/theta/slurm/%A_%a.log\n"
            "#SBATCH --chdir=/home/me\n"
            "exec /bin/posenc sweep grid.yaml --set 'name=it'\\''s'\n");
}

TEST(SlurmScript, PassesEveryRequestOn) {
  const std::string script = slurm_script({.partition = "gpu",
                                           .time = "4:00:00",
                                           .memory = "16G",
                                           .gpus = 2,
                                           .cpus = 8,
                                           .tasks = 1,
                                           .grace = 300,
                                           .more = {"--account=physics", "--comment=a \"b\""}},
                                          "x", "/with blank/50%", "/", {"posenc"});
  for (const char* line :
       {"--array=0-0", "--partition=gpu", "--time=4:00:00", "--mem=16G", "--gpus=2",
        "--cpus-per-task=8", "--signal=B:TERM@300", "--account=physics", R"("--comment=a \"b\"")",
        R"("--output=/with blank/50%%/slurm/%A_%a.log")"}) {
    EXPECT_NE(script.find(std::string("#SBATCH ") + line + "\n"), std::string::npos) << line << "\n"
                                                                                     << script;
  }
}

TEST(SlurmScript, ReadsTimesAsSbatchDoes) {
  EXPECT_EQ(slurm_minutes("90"), 90.0);
  EXPECT_EQ(slurm_minutes("1:30"), 1.5);
  EXPECT_EQ(slurm_minutes("2:00:30"), 120.5);
  EXPECT_EQ(slurm_minutes("1-0"), 1440.0);
  EXPECT_EQ(slurm_minutes("1-2:03"), 1563.0);
  EXPECT_EQ(slurm_minutes("1-2:03:30"), 1563.5);
  for (const char* other : {"", "soon", "1:2:3:4", "-5", "x-1", "1-", "1:x"}) {
    EXPECT_FALSE(slurm_minutes(other)) << other;
  }
}

// A grace as long as the limit would end a task when it starts.
TEST(SlurmScript, TheGraceFitsIntoTheTimeLimit) {
  EXPECT_EQ(fitting_grace({.time = "4:00:00"}), 120);
  EXPECT_EQ(fitting_grace({.time = "4"}), 60);
  EXPECT_EQ(fitting_grace({.time = "0:20"}), 10);
  EXPECT_EQ(fitting_grace({.time = ""}), 120) << "the limit of the partition";
}

TEST(SlurmAnswers, OfSacct) {
  const auto tasks = parse_sacct(
      "12_0|TIMEOUT|None\n12_1|CANCELLED by 0|None\n12_2|OUT_OF_MEMORY|None\n"
      "12_[3-7]|PENDING|Resources\nnoise\n");
  ASSERT_EQ(tasks.size(), 4U);
  EXPECT_EQ(tasks.at("12_0").state, "TIMEOUT");
  EXPECT_EQ(tasks.at("12_0").reason, "");
  EXPECT_EQ(tasks.at("12_1").state, "CANCELLED");
  EXPECT_EQ(tasks.at("12_[3-7]").reason, "Resources");
  EXPECT_TRUE(is_queued(tasks.at("12_[3-7]")));
  EXPECT_FALSE(is_active(tasks.at("12_2")));
}

TEST(SlurmAnswers, OfScontrol) {
  const auto tasks = parse_scontrol(
      "JobId=15 ArrayJobId=12 ArrayTaskId=3 JobName=posenc-x JobState=FAILED "
      "Reason=NonZeroExitCode "
      "ExitCode=1:0\n"
      "JobId=12 ArrayJobId=12 ArrayTaskId=4-7%2 JobName=x JobState=PENDING Reason=Priority\n"
      "JobId=9 JobName=x JobState=RUNNING Reason=None\n");
  ASSERT_EQ(tasks.size(), 3U);
  EXPECT_EQ(tasks.at("12_3").state, "FAILED");
  EXPECT_EQ(tasks.at("12_3").reason, "NonZeroExitCode");
  EXPECT_EQ(tasks.at("12_[4-7]").state, "PENDING");
  EXPECT_EQ(tasks.at("9").reason, "");
  EXPECT_TRUE(is_active(tasks.at("9")));
}

using SlurmPlan = testing::SweepCase;

TEST_F(SlurmPlan, ItsHashChangesWithTheJobs) {
  const std::string before = plan_hash(plan_);
  make_plan({"name=another"});
  EXPECT_EQ(plan_hash(plan_), before) << "a name decides nothing";
  make_plan({"train.steps=7"});
  EXPECT_NE(plan_hash(plan_), before);
}

// Programs of Slurm that are a line of shell each.
class SlurmPrograms : public ::testing::Test {
 protected:
  SlurmPrograms() : path_(std::getenv("PATH")) {
    ::setenv("PATH", (folder_.path() + ":" + path_).c_str(), 1);
  }
  ~SlurmPrograms() override { ::setenv("PATH", path_.c_str(), 1); }
  SlurmPrograms(SlurmPrograms&&) = delete;
  SlurmPrograms& operator=(SlurmPrograms&&) = delete;
  void program(const std::string& name, const std::string& script) const {
    testing::write_content(folder_ / name, "#!/bin/sh\n" + script + "\n");
    std::filesystem::permissions(folder_ / name, std::filesystem::perms::owner_all);
  }
  static std::string error_of(const std::function<void()>& work) {
    try {
      work();
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  }
  testing::TemporaryFolder folder_;
  std::string path_;
};

TEST_F(SlurmPrograms, ASubmissionIsRecorded) {
  program("sbatch", "echo \"$@\" > " + (folder_ / "words") + "; echo '123;cluster'");
  const auto script = write_script(folder_ / "out", "#!/bin/bash\n");
  const Submission made = submit(folder_ / "out", script, 3);
  EXPECT_EQ(made.job, "123");
  EXPECT_EQ(testing::file_content(folder_ / "words"),
            "--parsable --array=0-2 " + script.string() + "\n");
  program("sbatch", "echo 45");
  submit(folder_ / "out", script, 1);
  const auto all = submissions(folder_ / "out");
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].job, "45") << "in the order of their numbers";
  EXPECT_EQ(all[1].tasks, 3);
  EXPECT_EQ(all[1].script, script.filename().string());
}

TEST_F(SlurmPrograms, ARefusalIsOneLineWithTheReason) {
  program("sbatch",
          "echo 'sbatch: error: invalid partition specified: nope' >&2; "
          "echo 'sbatch: error: Batch job submission failed: Invalid partition name' >&2; exit 1");
  const auto script = write_script(folder_ / "out", "#!/bin/bash\n");
  EXPECT_EQ(error_of([&] { submit(folder_ / "out", script, 1); }),
            "[sbatch] refused: invalid partition specified: nope: Batch job submission failed: "
            "Invalid partition name; sinfo lists the partitions; choose one with --partition");
  EXPECT_TRUE(submissions(folder_ / "out").empty());
  program("scancel", "exit 4");
  EXPECT_NE(error_of([] { cancel_jobs({"1"}, true); }).find("exit code 4"), std::string::npos);
}

TEST_F(SlurmPrograms, WithoutAccountingTheControllerIsAsked) {
  program("sacct", "echo 'Slurm accounting storage is disabled' >&2; exit 1");
  program("scontrol",
          "echo \"JobId=$4 ArrayJobId=$4 ArrayTaskId=0 JobState=COMPLETED Reason=None\"");
  const auto tasks = ask_slurm({"7", "8"});
  EXPECT_EQ(tasks.size(), 2U);
  EXPECT_EQ(tasks.at("8_0").state, "COMPLETED");
  program("sacct", "echo '7_0|NODE_FAIL|None'");
  EXPECT_EQ(ask_slurm({"7"}).at("7_0").state, "NODE_FAIL");
  EXPECT_TRUE(ask_slurm({}).empty());
}

TEST_F(SlurmPrograms, RanksOfSrunAreSignalledBySlurm) {
  program("scancel", "echo \"$@\" >> " + (folder_ / "words"));
  ::unsetenv("SLURM_JOB_ID");
  EXPECT_FALSE(stop_of_steps({"srun", "posenc", "train"})) << "no job of Slurm";
  ::setenv("SLURM_JOB_ID", "99", 1);
  EXPECT_FALSE(stop_of_steps({"/usr/bin/posenc", "train"}));
  const auto stop = stop_of_steps({"/usr/bin/srun", "-n", "2"});
  Command command;
  command.words = {"sleep", "60"};
  Process process(command);
  ASSERT_TRUE(stop);
  stop(process, SIGTERM);
  EXPECT_EQ(testing::file_content(folder_ / "words"), "--signal=15 99\n");
  EXPECT_FALSE(process.poll()) << "srun itself gets none";
  program("scancel", "exit 1");
  stop(process, SIGTERM);
  EXPECT_EQ(process.wait().signal, SIGTERM) << "where Slurm does not answer";
  ::unsetenv("SLURM_JOB_ID");
}

TEST_F(SlurmPrograms, CancellingRemovesWhatWaitsAndLetsTheRestSave) {
  program("scancel", "echo \"$@\" >> " + (folder_ / "words"));
  cancel_jobs({"7", "8"}, false);
  cancel_jobs({"9"}, true);
  EXPECT_EQ(testing::file_content(folder_ / "words"),
            "--state=PENDING 7 8\n--state=RUNNING --batch --signal=TERM 7 8\n9\n");
}

}  // namespace
}  // namespace posenc::sweep
