// posenc sweep, compare, data and sample as a user meets them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <set>
#include <thread>

#include "cli/run_cli.h"
#include "report/run_case.h"
#include "support/paths.h"

namespace posenc::testing {
namespace {

using nlohmann::json;

std::size_t widest(const std::string& text) {
  std::size_t wide = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    wide = std::max(wide, end - begin);
    begin = end + 1;
  }
  return wide;
}

// A sweep over six jobs whose trainer writes down that it finished, fails for seed 1 of rope, and waits
// for a signal where it is told to.
class SweepVerb : public ::testing::Test {
 protected:
  SweepVerb() {
    write_content(folder_ / "base.yaml", "task: parity\n");
    write_content(folder_ / "sweep.yaml",
                  "base: base.yaml\nout: " + (folder_ / "out") +
                      "\ngrid: {model.encoding: [none, rope], seed: [0, 1, 2]}\n");
    write_content(folder_ / "trainer", R"sh(#!/bin/sh
here=$(dirname "$0")
for word; do case $word in model.encoding=*|seed=*) what="$what$word ";; esac; done
while [ "$1" != --out ]; do shift; done
echo "$what" >> "$here/calls"
case $what in *rope*seed=1*) echo "[trainer] no luck today" >&2; exit 1;; esac
if [ -f "$here/wait" ]; then
  trap 'echo saved >> "$here/calls"; exit 143' TERM
  echo ready >> "$here/calls"
  while :; do sleep 0.05; done
fi
mkdir -p "$2"
hash=$(cat "$here/hash-$(basename "$2")" 2> /dev/null || echo none)
printf '{"state": "finished", "step": 1, "message": "", "config_hash": "%s"}' "$hash" > "$2/status.json"
evaluation=$(cat "$here/eval-$(basename "$2")" 2> /dev/null || echo none)
printf '{"eval_hash": "%s"}' "$evaluation" > "$2/results.json"
)sh");
    std::filesystem::permissions(folder_ / "trainer", std::filesystem::perms::owner_all);
  }
  [[nodiscard]] std::string command(const std::string& more = "") const {
    return "sweep " + (folder_ / "sweep.yaml") + " --trainer " + (folder_ / "trainer") + " " + more;
  }
  // What the trainer needs to know to write the status that the real one would.
  void tell_hashes() const {
    const json j = json::parse(file_content(folder_ / "out/sweep.json"));
    for (const json& job : j["jobs"]) {
      const std::string folder = job["folder"];
      const std::string name = folder.substr(folder.rfind('/') + 1);
      write_content(folder_ / ("hash-" + name), job["hash"]);
      write_content(folder_ / ("eval-" + name), job["eval_hash"]);
    }
  }
  [[nodiscard]] std::size_t calls() const {
    const std::string text = file_content(folder_ / "calls");
    return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  }
  TemporaryFolder folder_;
};

TEST_F(SweepVerb, RunsReportsAndSkips) {
  const Result first = run(command("--jobs 2"));
  EXPECT_EQ(first.code, 1) << "a job failed\n" << first.out;
  EXPECT_EQ(calls(), 6U) << "and stopped nothing else";
  EXPECT_NE(first.out.find("6 of 6 jobs to run"), std::string::npos) << first.out;
  EXPECT_NE(first.out.find("failed: rope-seed1: exit code 1: [trainer] no luck today"),
            std::string::npos)
      << first.out;
  EXPECT_NE(first.out.find("5 finished, 1 failed"), std::string::npos) << first.out;
  const json j = json::parse(file_content(folder_ / "out/sweep.json"));
  EXPECT_EQ(j["counts"]["failed"], 1);
  tell_hashes();
  std::filesystem::remove_all(folder_ / "out");
  run(command());
  const Result again = run(command("--dry-run"));
  EXPECT_EQ(again.code, 0);
  EXPECT_NE(again.out.find("1 of 6 jobs to run"), std::string::npos) << again.out;
  EXPECT_NE(again.out.find("skip: finished"), std::string::npos) << again.out;
  EXPECT_EQ(calls(), 12U) << "a dry run runs nothing";
}

TEST_F(SweepVerb, DryRunsWriteNothing) {
  const Result dry = run(command("--dry-run"));
  EXPECT_EQ(dry.code, 0);
  EXPECT_NE(dry.out.find("none-seed0"), std::string::npos) << dry.out;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
}

TEST_F(SweepVerb, ShardsAreAllJobsTogether) {
  std::multiset<std::string> hashes;
  for (const std::string part : {"1", "2", "3", "4"}) {
    run(command("--shard " + part + "/4"));
    const json j = json::parse(file_content(folder_ / ("out/sweep-" + part + "-of-4.json")));
    for (const json& job : j["jobs"]) hashes.insert(job["hash"]);
  }
  EXPECT_EQ(hashes.size(), 6U);
  EXPECT_EQ(std::set<std::string>(hashes.begin(), hashes.end()).size(), 6U);
  EXPECT_EQ(calls(), 6U);
}

TEST_F(SweepVerb, ASignalLetsTheJobsSave) {
  write_content(folder_ / "wait", "");
  const pid_t child = fork();
  if (child == 0) {
    const std::string file = folder_ / "sweep.yaml";
    const std::string trainer = folder_ / "trainer";
    execl(kCliPath, "posenc", "sweep", file.c_str(), "--trainer", trainer.c_str(), "--jobs", "2",
          nullptr);
    _exit(99);
  }
  while (file_content(folder_ / "calls").find("ready\n") == std::string::npos || calls() < 4) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  kill(child, SIGTERM);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  kill(child, SIGTERM);  // as timeout(1) does: to the process, then to its group
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGTERM);
  const std::string said = file_content(folder_ / "calls");
  EXPECT_EQ(calls(), 6U) << said << "two started, were ready and saved; no third began";
  const json j = json::parse(file_content(folder_ / "out/sweep.json"));
  EXPECT_EQ(j["counts"]["stopped"], 2);
  EXPECT_EQ(j["counts"]["waiting"], 4);
}

TEST_F(SweepVerb, MistakesAreOneLine) {
  write_content(folder_ / "bad.yaml", "base: base.yaml\nout: x\ngrid: {model.encoding: [rop]}\n");
  write_content(folder_ / "file", "");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"sweep " + (folder_ / "none.yaml"), "none.yaml] cannot be read"},
      {"sweep " + (folder_ / "bad.yaml"), "did you mean 'rope'"},
      {command("--shard 5/4"), "must be i/n with i from 1 to n but got 5/4"},
      {command("--shard x"), "must be i/n"},
      {command("--set seed=4"), "seed is what the sweep varies"},
      {command("--set model.layers=x"), "layers"},
      {command("--jobs 0"), "--jobs"},
      {command("--out " + (folder_ / "file/below")), "file/below"},
  };
  for (const auto& [arguments, part] : cases) {
    const Result result = run(arguments);
    EXPECT_EQ(result.code, 2) << arguments << result.out;
    EXPECT_NE(result.out.find(part), std::string::npos) << arguments << "\n" << result.out;
    EXPECT_NE(result.out.rfind("posenc"), std::string::npos);
  }
  EXPECT_EQ(calls(), 0U);
}

class CompareVerb : public ::testing::Test {
 protected:
  CompareVerb() {
    const std::vector<std::string> encodings = {"none", "rope", "rope(theta=500000) + alibi"};
    for (std::size_t i = 0; i < encodings.size(); ++i) {
      for (int seed = 0; seed < 3; ++seed) {
        const double v = 0.9 + 0.03 * seed;
        std::vector<CaseRow> rows = {{"train", 1, v, v - 0.01, v + 0.01}};
        for (const char* axis : {"longer", "more", "beyond"}) {
          for (const int factor : {1, 2, 4, 8}) {
            rows.push_back({axis, factor, v / factor, v / factor - 0.01, v / factor + 0.01});
          }
        }
        write_run(folder_ / (std::to_string(i) + "-" + std::to_string(seed)),
                  {.encoding = encodings[i],
                   .seed = seed,
                   .tokens_per_s = 12000.0 - 1000.0 * static_cast<double>(i) + seed,
                   .rows = rows});
      }
    }
    write_run(folder_ / "late", {.encoding = "cope"}, runs::RunState::kStopped);
  }
  TemporaryFolder folder_;
};

TEST_F(CompareVerb, PrintsTablesThatFitATerminal) {
  const Result result = run("compare " + folder_.path());
  EXPECT_EQ(result.code, 0) << result.out;
  EXPECT_LE(widest(result.out.substr(0, result.out.find("not in the tables"))), 100U) << result.out;
  for (const char* part :
       {"chance", "93.0 [", "1.20x", "axis beyond", "late stopped at step 100",
        "#1 rope(theta=500000) + alibi", "effective", "2x last 1/8", "selective_counting: findings",
        "No clear difference in domain", "none is ahead in training speed"}) {
    EXPECT_NE(result.out.find(part), std::string::npos) << part << "\n" << result.out;
  }
}

TEST_F(CompareVerb, SpeaksToPrograms) {
  const json j = run_json("compare " + folder_.path());
  EXPECT_EQ(j["tasks"][0]["entries"].size(), 3U);
  EXPECT_EQ(j["tasks"][0]["entries"][1]["n"], 3);
  EXPECT_NEAR(j["tasks"][0]["entries"][2]["time_against_none"].get<double>(), 1.2, 1e-3);
  const Result csv = run("compare --csv " + folder_.path());
  EXPECT_EQ(std::count(csv.out.begin(), csv.out.end(), '\n'), 1 + 3 * 13 * 3);
  const Result markdown = run("compare --markdown " + folder_.path());
  EXPECT_NE(markdown.out.find("**selective_counting: findings**"), std::string::npos);
  EXPECT_NE(markdown.out.find("| encoding | n | in domain |"), std::string::npos) << markdown.out;
}

TEST_F(CompareVerb, MistakesAreOneLine) {
  std::filesystem::create_directory(folder_ / "empty");
  for (const auto& [arguments, part] : std::vector<std::pair<std::string, std::string>>{
           {"compare " + (folder_ / "nowhere"), "is not a folder"},
           {"compare " + (folder_ / "empty"), "holds no runs"},
           {"compare --json --csv " + folder_.path(), "at most 1"},
           {"compare", "required"}}) {
    const Result result = run(arguments);
    EXPECT_EQ(result.code, 2) << result.out;
    EXPECT_NE(result.out.find(part), std::string::npos) << result.out;
    EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 1) << result.out;
  }
}

TEST(DataVerb, ListsFetchesAndRefuses) {
  const TemporaryFolder folder;
  const std::string here = "POSENC_DATA=" + folder.path() + " ";
  const Result list = run("data --list", here);
  EXPECT_EQ(list.code, 0);
  EXPECT_LE(widest(list.out), 100U) << list.out;
  EXPECT_NE(list.out.find("moby"), std::string::npos) << list.out;
  const Result all = run("data", here);
  EXPECT_EQ(all.code, 0);
  EXPECT_LE(widest(all.out), 100U) << all.out;
  EXPECT_NE(all.out.find("not fetched"), std::string::npos) << all.out;
  EXPECT_NE(run("data mobi", here).out.find("did you mean 'moby'"), std::string::npos);
  write_content(folder / "wrong.tgz", "not the package");
  const Result wrong = run("data moby --from " + (folder / "wrong.tgz"), here);
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.out.find("wrong checksum"), std::string::npos) << wrong.out;
  EXPECT_EQ(folder.files(), std::vector<std::string>{"wrong.tgz"});
}

TEST(SampleVerb, PrintsWhatTheTaskMakes) {
  const TemporaryFolder folder;
  write_content(folder / "c.yaml", "task: flip_flop\nseed: 5\n");
  const Result one = run("sample " + (folder / "c.yaml") + " --length 16 --count 2");
  EXPECT_EQ(one.code, 0) << one.out;
  EXPECT_NE(one.out.find("flip_flop, axis train, length 16, seed 5"), std::string::npos) << one.out;
  EXPECT_EQ(run("sample " + (folder / "c.yaml") + " --length 16 --count 2").out, one.out);
  const Result second = run("sample " + (folder / "c.yaml") + " --length 16 --count 1 --first 1");
  EXPECT_NE(one.out.find(second.out.substr(second.out.find("\n1:"))), std::string::npos)
      << "row 1 is row 1, whatever comes before it";
  const Result bad = run("sample " + (folder / "c.yaml") + " --axis spars");
  EXPECT_EQ(bad.code, 2);
  EXPECT_NE(bad.out.find("did you mean 'sparse'"), std::string::npos) << bad.out;
}

// Training, evaluating and printing samples all say so: a copied number must not pass for a result.
TEST(SampleVerb, ALeakIsAnnouncedByEveryVerb) {
  POSENC_NEEDS_LIBTORCH();
  const TemporaryFolder folder;
  const std::string config = folder / "c.yaml";
  write_content(config,
                "task: {selective_counting: {answer: final, leak: true}}\n"
                "model: {dim: 16, heads: 2, layers: 1}\n"
                "train: {length: 24, batch: 2, steps: 1}\n"
                "eval: {factors: [1], samples: 2}\n");
  const std::string warning = "warning: selective_counting has leak: true";
  const std::string out = folder / "run";
  const Result trained = run("train " + config + " --out " + out);
  ASSERT_EQ(trained.code, 0) << trained.out;
  for (const Result& result : {run("sample " + config), trained, run("eval " + out)}) {
    EXPECT_EQ(result.code, 0) << result.out;
    EXPECT_NE(result.out.find(warning), std::string::npos) << result.out;
  }
  const std::string corrected = " --set task.selective_counting.leak=false";
  EXPECT_EQ(run("sample " + config + corrected).out.find("warning"), std::string::npos);
}

// Of a training and of each evaluation after it.
TEST(EvalVerb, AddsResultsAndHyperparametersForTensorBoard) {
  POSENC_NEEDS_LIBTORCH();
  const TemporaryFolder folder;
  const std::string config = folder / "c.yaml";
  write_content(config,
                "task: parity\nmodel: {dim: 16, heads: 2, layers: 1}\n"
                "train: {length: 24, batch: 2, steps: 1}\neval: {factors: [1, 2], samples: 2}\n");
  const std::string out = folder / "run";
  ASSERT_EQ(run("train " + config + " --out " + out).code, 0);
  ASSERT_EQ(run("eval " + out).code, 0);
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(out)) {
    const std::string path = entry.path().string();
    if (path.find("tfevents") == std::string::npos) continue;
    ++files;
    const std::string command = "python3 " + std::string(kTestData) + "/runs/read_events.py " +
                                path + " > " + (folder / "read");
    ASSERT_EQ(std::system(command.c_str()), 0);
    const std::string read = file_content(folder / "read");
    for (const char* says : {"\nscalar results/longer_48/accuracy 1 ", "\n  model.dim=16.0\n",
                             "\nplugin hparams _hparams_/session_end_info\n  status 1\n"}) {
      EXPECT_NE(read.find(says), std::string::npos) << says << " in " << read;
    }
  }
  EXPECT_EQ(files, 2);
}

}  // namespace
}  // namespace posenc::testing
