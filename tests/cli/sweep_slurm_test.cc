// posenc sweep --on slurm, status, cancel and retry with stand-ins for Slurm's programs; tests/slurm has the real ones.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "cli/run_cli.h"
#include "support/temporary_folder.h"

namespace posenc::testing {
namespace {

using nlohmann::json;

// Fails for seed 1 while a file `fail` is there, and waits to be stopped while there is a file `wait`.
constexpr const char* kTrainer = R"sh(#!/bin/sh
here=$(dirname "$0")
for word; do case $word in seed=*) seed=${word#seed=};; esac; done
while [ "$1" != --out ]; do shift; done
echo "seed $seed" >> "$here/calls"
if [ -f "$here/fail" ] && [ "$seed" = 1 ]; then echo 'no luck'; exit 1; fi
if [ -f "$here/wait" ]; then
  trap 'exit 143' TERM
  while :; do sleep 0.05; done
fi
mkdir -p "$2"
hash=$(grep -o "\"hash\":\"[0-9a-f]*\",\"eval_hash\":\"[0-9a-f]*\",\"folder\":\"$2\"" "$here/out/sweep.json")
eval_hash=$(echo "$hash" | cut -d'"' -f8); hash=$(echo "$hash" | cut -d'"' -f4)
printf '{"state": "finished", "step": 1, "message": "", "config_hash": "%s"}' "$hash" > "$2/status.json"
printf '{"eval_hash": "%s"}' "$eval_hash" > "$2/results.json"
)sh";

class SlurmSweepVerb : public ::testing::Test {
 protected:
  SlurmSweepVerb() {
    write_content(folder_ / "base.yaml", "task: parity\n");
    write_content(folder_ / "sweep.yaml",
                  "base: base.yaml\nout: " + (folder_ / "out") + "\ngrid: {seed: [0, 1, 2]}\n");
    program("trainer", kTrainer);
    program("sbatch", "echo \"$@\" >> " + (folder_ / "sbatch_words") + "; echo 17");
    program("sacct", "cat " + (folder_ / "tasks") + " 2>/dev/null");
    program("scontrol", "exit 1");
    program("scancel", "echo \"$@\" >> " + (folder_ / "scancel_words"));
  }
  void program(const std::string& name, const std::string& script) const {
    write_content(folder_ / name,
                  script.starts_with("#!") ? script : "#!/bin/sh\n" + script + "\n");
    std::filesystem::permissions(folder_ / name, std::filesystem::perms::owner_all);
  }
  [[nodiscard]] Result sweep(const std::string& words, const std::string& before = "") const {
    return run("sweep " + words, before + "PATH=" + folder_.path() + ":$PATH ");
  }
  [[nodiscard]] Result sweep_file(const std::string& more) const {
    return sweep((folder_ / "sweep.yaml") + " --trainer " + (folder_ / "trainer") + " " + more);
  }
  [[nodiscard]] std::string out() const { return folder_ / "out"; }
  [[nodiscard]] json status() const {
    const Result result = sweep("status " + out() + " --json");
    EXPECT_EQ(result.code, 0) << result.out;
    return json::parse(result.out);
  }
  void expect_mistake(const Result& result, const std::string& part) {
    EXPECT_EQ(result.code, 2) << result.out;
    EXPECT_NE(result.out.find(part), std::string::npos) << result.out;
    EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 1) << result.out;
  }
  TemporaryFolder folder_;
};

TEST_F(SlurmSweepVerb, ADryRunPrintsTheScriptAndChangesNothing) {
  const Result result = sweep_file("--on slurm --gpus 2 --time 30 --sbatch=--account=a --dry-run");
  EXPECT_EQ(result.code, 0) << result.out;
  for (const char* part : {"#SBATCH --gpus=2\n", "#SBATCH --time=30\n", "#SBATCH --account=a\n",
                           "#SBATCH --array=0-2\n", " --plan "}) {
    EXPECT_NE(result.out.find(part), std::string::npos) << part << result.out;
  }
  EXPECT_FALSE(std::filesystem::exists(out()));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "sbatch_words"));
}

TEST_F(SlurmSweepVerb, SubmitsAnArrayWhoseScriptTrainsTheRuns) {
  const Result result = sweep_file("--on slurm --array 2 --threads 3 --set train.steps=7");
  EXPECT_EQ(result.code, 0) << result.out;
  EXPECT_NE(result.out.find("submitted job 17: 2 tasks for 3 of 3 runs"), std::string::npos)
      << result.out;
  const std::string words = file_content(folder_ / "sbatch_words");
  EXPECT_TRUE(words.starts_with("--parsable --array=0-1 ")) << words;
  const std::string script =
      words.substr(words.rfind(' ') + 1, words.size() - words.rfind(' ') - 2);
  EXPECT_NE(file_content(script).find("#SBATCH --cpus-per-task=3\n"), std::string::npos);
  EXPECT_EQ(status()["counts"]["waiting"], 3) << "known before the first task starts";
  // As Slurm would: two tasks at a time.
  std::string both;
  for (const char* task : {"0", "1"}) {
    both += std::string("SLURM_ARRAY_JOB_ID=17 SLURM_JOB_ID=17 SLURM_ARRAY_TASK_ID=") + task +
            " bash " + script + " > /dev/null 2>&1 & ";
  }
  (void)!std::system((both + "wait").c_str());
  EXPECT_EQ(status()["counts"]["done"], 3);
  const std::string calls = file_content(folder_ / "calls");
  EXPECT_EQ(std::count(calls.begin(), calls.end(), '\n'), 3) << calls;
  EXPECT_EQ(json::parse(file_content(out() + "/slurm/17_0.json"))["counts"]["all"], 3);
  EXPECT_NE(sweep_file("--on slurm --set train.steps=7").out.find("nothing to do"),
            std::string::npos);
}

TEST_F(SlurmSweepVerb, AWorkerRefusesAnotherPlan) {
  expect_mistake(sweep_file("--plan 0123456789abcdef"),
                 "has changed since the sweep was submitted");
}

TEST_F(SlurmSweepVerb, StatusHasTheReasonsOfFailures) {
  write_content(folder_ / "fail", "");
  EXPECT_EQ(sweep_file("").code, 1);
  const Result table = sweep("status " + out());
  EXPECT_NE(table.out.find("exit code 1: no luck"), std::string::npos) << table.out;
  EXPECT_NE(table.out.find("3 runs: 2 done, 1 failed"), std::string::npos) << table.out;
  expect_mistake(sweep("retry " + out() + " seed0"), "has not failed: it is done");
  expect_mistake(sweep("retry " + out() + " seed8"), "is not a run of");
  const Result local = sweep("retry " + out());
  EXPECT_NE(local.out.find("seed1: will be tried again"), std::string::npos) << local.out;
  EXPECT_NE(local.out.find("start them: posenc sweep "), std::string::npos) << local.out;
  std::filesystem::remove(folder_ / "fail");
  EXPECT_EQ(sweep_file("").code, 0);
  EXPECT_NE(sweep("retry " + out()).out.find("nothing to retry"), std::string::npos);
}

TEST_F(SlurmSweepVerb, RetryOfASubmissionSubmitsAgain) {
  write_content(folder_ / "fail", "");
  EXPECT_EQ(sweep_file("--on slurm").code, 0);
  EXPECT_EQ(sweep_file("").code, 1);
  const Result result = sweep("retry " + out() + " seed1");
  EXPECT_NE(result.out.find("submitted job 17: 1 tasks"), std::string::npos) << result.out;
  EXPECT_NE(file_content(folder_ / "sbatch_words").find("--array=0-0 "), std::string::npos);
}

TEST_F(SlurmSweepVerb, CancelAsksSlurmAndProcessesOfThisMachine) {
  EXPECT_EQ(sweep_file("--on slurm").code, 0);
  write_content(folder_ / "tasks", "17_0|RUNNING|None\n17_[1-2]|PENDING|Resources\n");
  EXPECT_NE(sweep("status " + out()).out.find("job 17: 1 PENDING (Resources), 1 RUNNING"),
            std::string::npos)
      << sweep("status " + out()).out;
  EXPECT_NE(sweep("cancel " + out()).out.find("job 17: cancelled"), std::string::npos);
  EXPECT_EQ(file_content(folder_ / "scancel_words"),
            "--state=PENDING 17\n--state=RUNNING --batch --signal=TERM 17\n");
  write_content(folder_ / "tasks", "17_0|CANCELLED by 0|None\n");
  EXPECT_NE(sweep("cancel " + out()).out.find("nothing to cancel"), std::string::npos);
  write_content(folder_ / "wait", "");
  Result local;
  std::thread other([&] { local = sweep_file(""); });
  while (status()["counts"]["held"] != 1)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_NE(sweep("cancel " + out()).out.find("asked to save and end"), std::string::npos);
  other.join();
  EXPECT_EQ(local.code, 128 + SIGTERM) << local.out;
}

TEST_F(SlurmSweepVerb, BadInputIsOneLine) {
  expect_mistake(sweep_file("--partition gpu"), "--partition is for a cluster; add --on slurm");
  expect_mistake(sweep_file("--on slurm --minutes 5"),
                 "cannot be used with --on slurm; use --time");
  expect_mistake(sweep_file("--on slurm --shard 1/2"), "cannot be used with --on slurm");
  expect_mistake(sweep_file("--on mars"), "--on");
  expect_mistake(sweep(""), "SWEEP");
  expect_mistake(sweep("status"), "DIR");
  expect_mistake(sweep("status " + folder_.path()), "is not the folder of a sweep");
  program("sbatch", "echo 'sbatch: error: invalid partition specified: x' >&2; exit 1");
  expect_mistake(sweep_file("--on slurm --partition x"), "invalid partition specified: x");
  expect_mistake(run("sweep " + (folder_ / "sweep.yaml") + " --on slurm", "PATH=/nowhere "),
                 "needs sbatch, which is not in PATH");
}

TEST(PlanVerb, PrintsATableAndJson) {
  TemporaryFolder folder;
  write_content(folder / "c.yaml", "task: parity\ntrain: {batch: 64, length: 32}\n");
  const Result table = run("plan " + (folder / "c.yaml") + " --gpus 8 --network 100Gbit");
  EXPECT_EQ(table.code, 0) << table.out;
  for (const char* part : {"8 GPUs, 64 rows of 32 positions", "100 Gbit/s", "67 TFLOP/s",
                           "shard_optimizer (ZeRO-1)", "checkpoint_blocks"}) {
    EXPECT_NE(table.out.find(part), std::string::npos) << part << "\n" << table.out;
  }
  const json j = run_json("plan " + (folder / "c.yaml") + " --gpus 8 --tokens-per-s 1e6");
  EXPECT_EQ(j["variants"].size(), 4U);
  EXPECT_DOUBLE_EQ(j["variants"][0]["compute_seconds"], 8 * 32 / 1e6);
  for (const char* words : {"--gpus 7", "--gpus 8 --network fast", "--gpus 0", ""}) {
    const Result wrong = run("plan " + (folder / "c.yaml") + " " + words);
    EXPECT_EQ(wrong.code, 2) << words << wrong.out;
    EXPECT_EQ(std::count(wrong.out.begin(), wrong.out.end(), '\n'), 1) << wrong.out;
  }
}

}  // namespace
}  // namespace posenc::testing
