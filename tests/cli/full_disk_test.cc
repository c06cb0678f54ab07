// Standard output on a full disk is an error; a pipe whose reader has gone is not.
#include <gtest/gtest.h>

#include "cli/run_cli.h"
#include "report/run_case.h"

namespace posenc::testing {
namespace {

// The shell opens /dev/full for standard output alone.
Result run_on_full_disk(const std::string& arguments) {
  return run(arguments, R"(sh -c 'exec "$@" > /dev/full' sh )");
}

void expect_said(const std::string& arguments,
                 const std::string& reason = ": No space left on device") {
  const Result result = run_on_full_disk(arguments);
  EXPECT_EQ(result.code, 1) << arguments;
  EXPECT_EQ(result.out, "posenc: [standard output] cannot be written" + reason + "\n") << arguments;
}

TEST(FullDisk, IsSaidByEveryVerbThatPrints) {
  const TemporaryFolder folder;
  write_run(folder / "runs/a", {.rows = {{"longer", 2, 0.5, 0.4, 0.6, ""}}});
  write_content(folder / "c.yaml", "task: parity\ntrain: {batch: 64, length: 32}\n");
  for (const std::string& arguments :
       {std::string("--help"), std::string("list rope"),
        std::string("inspect rope --head-dim 8 --json"), "compare " + (folder / "runs"),
        "plan " + (folder / "c.yaml") + " --gpus 8 --json", "sample " + (folder / "c.yaml"),
        "runs list " + (folder / "runs")}) {
    expect_said(arguments);
  }
}

// Written by CLI11, which does not say what it met.
TEST(FullDisk, IsSaidOfTheVersion) { expect_said("--version", ""); }

TEST(FullDisk, IsSaidOfOutputsThatDoNotFitIntoABuffer) {
  expect_said("inspect rope --head-dim 64 --positions 0:999 --json");
}

TEST(FullDisk, IsSaidByTheOtherPrograms) {
  POSENC_NEEDS_LIBTORCH();
  expect_said("train --help");
  expect_said("bench cpu --list");
}

TEST(FullDisk, MistakesKeepTheirExitCode) {
  EXPECT_EQ(run_on_full_disk("inspect rop --head-dim 8").code, 2);
}

TEST(FullDisk, AClosedPipeIsQuiet) {
  const TemporaryFolder folder;
  for (const std::string before : {"", "trap '' PIPE; "}) {
    (void)run("list rope 2> " + (folder / "said") + " | true", before);
    EXPECT_EQ(file_content(folder / "said"), "") << before;
  }
}

TEST(FullDisk, AClosedPipeIsQuietForMoreThanABuffer) {
  const TemporaryFolder folder;
  for (const std::string words :
       {"inspect rope --head-dim 64 --positions 0:999 --json", "--version"}) {
    (void)run(words + " 2> " + (folder / "said") + " | true", "trap '' PIPE; ");
    EXPECT_EQ(file_content(folder / "said"), "") << words;
  }
}

}  // namespace
}  // namespace posenc::testing
