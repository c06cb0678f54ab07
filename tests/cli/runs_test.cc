// posenc runs as a user meets it.
#include <gtest/gtest.h>

#include <csignal>

#include "cli/run_cli.h"
#include "report/run_case.h"

namespace posenc::testing {
namespace {

class RunsVerb : public ::testing::Test {
 protected:
  RunsVerb() {
    for (const char* encoding : {"none", "rope"}) {
      write_run(folder_ / (std::string("runs/") + encoding),
                {.encoding = encoding,
                 .seed = 3,
                 .rows = {{"train", 1, 0.9, 0.88, 0.92}, {"longer", 2, 0.5, 0.4, 0.6}}});
    }
    pack_ = folder_ / "p.tar.zst";
  }
  Result pack(const std::string& more = "") {
    return run("runs pack " + (folder_ / "runs") + " -o " + pack_ + " " + more);
  }

  TemporaryFolder folder_;
  std::string pack_;
};

void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST_F(RunsVerb, PacksComparesAndUnpacks) {
  const Result packed = pack("--metrics 10 --attention 0");
  EXPECT_EQ(packed.code, 0) << packed.out;
  EXPECT_EQ(packed.out.rfind(pack_ + ": 2 runs, 0.0", 0), 0U) << packed.out;
  const Result unpacked = run("runs unpack " + pack_ + " --to " + (folder_ / "again"));
  EXPECT_EQ(unpacked.out, (folder_ / "again") + ": 2 runs unpacked\n");
  const Result of_runs = run("compare " + (folder_ / "runs"));
  EXPECT_EQ(of_runs.code, 0) << of_runs.out;
  EXPECT_EQ(run("compare " + pack_).out, of_runs.out);
  EXPECT_EQ(run("compare " + (folder_ / "again")).out, of_runs.out);
}

TEST_F(RunsVerb, SkipsWhatIsThereWithALine) {
  ASSERT_EQ(pack().code, 0);
  const Result again = run("runs unpack " + pack_ + " --to " + (folder_ / "runs"));
  EXPECT_EQ(again.code, 0);
  EXPECT_EQ(again.out, (folder_ / "runs/none") + " is skipped: the same run is there already\n" +
                           (folder_ / "runs/rope") +
                           " is skipped: the same run is there already\n" + (folder_ / "runs") +
                           ": 0 runs unpacked\n");
}

TEST_F(RunsVerb, ListsFoldersAndPacks) {
  write_run(folder_ / "runs/lost", {.encoding = "alibi"}, runs::RunState::kDiverged);
  ASSERT_EQ(pack().code, 0);
  for (const std::string& place : {folder_ / "runs", pack_, folder_.path()}) {
    const Result list = run("runs list " + place);
    EXPECT_EQ(list.code, 0) << list.out;
    expect_part(list.out, "encoding");
    expect_part(list.out, "/lost");
    expect_part(list.out, "diverged");
    expect_part(list.out, "rope");
    expect_part(list.out, "finished");
  }
}

TEST_F(RunsVerb, MistakesAreOneLine) {
  const auto refused = [](const std::string& words, const std::string& why) {
    const Result result = run("runs " + words);
    EXPECT_EQ(result.code, 2) << words;
    EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 1) << result.out;
    expect_part(result.out, why);
  };
  refused("", "subcommand");
  refused("pack", "required");
  refused("pack " + (folder_ / "runs") + " -o x.zip", "does not end in .tar.zst");
  refused("pack " + (folder_ / "runs") + " -o " + pack_ + " --metrics -1", "--metrics");
  refused("pack " + (folder_ / "runs") + " -o " + pack_ + " --weights", "has no checkpoint");
  refused("unpack " + (folder_ / "nowhere.tar") + " --to " + (folder_ / "to"), "is not a file");
  refused("list " + (folder_ / "nowhere"), "nowhere");
  EXPECT_EQ(folder_.files(), std::vector<std::string>{"runs"});
}

TEST_F(RunsVerb, WeightsCanBeEvaluatedAndNotResumed) {
  POSENC_NEEDS_LIBTORCH();
  write_content(folder_ / "tiny.yaml",
                "task: parity\nmodel: {layers: 1, dim: 16, heads: 2}\n"
                "train: {length: 16, batch: 4, steps: 3}\neval: {factors: 1, samples: 8}\n");
  const std::string how = " --progress quiet --threads 1";
  const Result trained =
      run("train " + (folder_ / "tiny.yaml") + " --out " + (folder_ / "lab/tiny") + how);
  ASSERT_EQ(trained.code, 0) << trained.out;
  ASSERT_EQ(run("runs pack " + (folder_ / "lab") + " --weights -o " + pack_).code, 0);
  ASSERT_EQ(run("runs unpack " + pack_ + " --to " + (folder_ / "again")).code, 0);
  const std::string again = folder_ / "again/tiny";
  std::filesystem::remove(again + "/results.json");
  EXPECT_EQ(run("eval " + again + how).code, 0);
  const auto rows = [](const std::string& path) {
    return nlohmann::json::parse(file_content(path + "/results.json")).at("rows");
  };
  EXPECT_EQ(rows(again), rows(folder_ / "lab/tiny"));
  const Result resumed =
      run("train " + (folder_ / "tiny.yaml") + " --out " + again + " --resume" + how);
  EXPECT_EQ(resumed.code, 2);
  expect_part(resumed.out, "runs from a pack can be evaluated, not resumed");
}

TEST_F(RunsVerb, ASignalLeavesNothing) {
  write_content(folder_ / "zstd",
                "#!/bin/sh\n[ \"$1\" = --version ] && exit 0\nkill -TERM $PPID\nexit 1\n");
  std::filesystem::permissions(folder_ / "zstd", std::filesystem::perms::owner_all);
  const Result stopped =
      run("runs pack " + (folder_ / "runs") + " -o " + pack_, "PATH=" + folder_.path() + ":$PATH ");
  EXPECT_EQ(stopped.code, 128 + SIGTERM) << stopped.out;
  EXPECT_EQ(folder_.files(), (std::vector<std::string>{"runs", "zstd"}));
}

// The signal reaches posenc alone; the program that it started does its work.
TEST_F(RunsVerb, ASignalDuringTheCompressionLeavesNothing) {
  ASSERT_EQ(pack().code, 0);
  const std::string there = file_content(pack_);
  std::filesystem::create_directory(folder_ / "bin");
  write_content(folder_ / "bin/zstd",
                "#!/bin/sh\n[ \"$1\" = --version ] || kill -TERM $PPID\n"
                "PATH=${PATH#*:} exec zstd \"$@\"\n");
  std::filesystem::permissions(folder_ / "bin/zstd", std::filesystem::perms::owner_all);
  const std::string before = "PATH=" + (folder_ / "bin:") + "$PATH ";
  const Result packed = run("runs pack " + (folder_ / "runs") + " --metrics 1 -o " + pack_, before);
  EXPECT_EQ(packed.code, 128 + SIGTERM) << packed.out;
  expect_part(packed.out, "interrupted");
  EXPECT_EQ(file_content(pack_), there);
  const Result unpacked = run("runs unpack " + pack_ + " --to " + (folder_ / "again"), before);
  EXPECT_EQ(unpacked.code, 128 + SIGTERM) << unpacked.out;
  expect_part(unpacked.out, "interrupted");
  EXPECT_EQ(folder_.files(), (std::vector<std::string>{"bin", "p.tar.zst", "runs"}));
}

}  // namespace
}  // namespace posenc::testing
