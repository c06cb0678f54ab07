// Numbers that options refuse: one short line with the rule and the value.
#include <gtest/gtest.h>

#include <algorithm>

#include "cli/run_cli.h"
#include "support/temporary_folder.h"

namespace posenc::testing {
namespace {

constexpr std::size_t kLongestLine = 150;

void expect_refused(const std::string& arguments, const std::string& says) {
  const Result result = run(arguments);
  EXPECT_EQ(result.code, 2) << arguments << ": " << result.out;
  EXPECT_NE(result.out.find(says), std::string::npos) << arguments << ": " << result.out;
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 1) << result.out;
  EXPECT_LT(result.out.size(), kLongestLine + arguments.size()) << result.out;
}

TEST(Ranges, NumbersThatAreNotFiniteAreRefused) {
  for (const std::string option :
       {"--latency", "--network-share", "--share", "--peak", "--tokens-per-s"}) {
    for (const std::string value : {"nan", "inf", "-nan", "1e999"}) {
      std::string given = option;
      given.append("=").append(value);
      std::string says = option;
      says.append(": must be finite but got ").append(value);
      expect_refused("plan c.yaml --gpus 8 " + given, says);
    }
  }
  expect_refused("compare runs --threshold nan", "--threshold: must be finite but got nan");
  expect_refused("report runs --threshold nan", "--threshold: must be finite but got nan");
  expect_refused("plot decay --panel-width nan", "--panel-width: must be finite but got nan");
  expect_refused("plot decay --scale nan", "--scale: must be finite but got nan");
  expect_refused("sweep s.yaml --lease nan", "--lease: must be finite but got nan");
}

TEST(Ranges, MessagesNameTheRuleAndTheValue) {
  expect_refused("sample c.yaml --first -1", "--first: must be >= 0 but got -1");
  expect_refused("sample c.yaml --first 1.5", "--first: must be an integer but got '1.5'");
  expect_refused("sample c.yaml --first 99999999999999999999",
                 "--first: must be in [0, 9223372036854775807] but got 99999999999999999999");
  expect_refused("attention run --sample -1", "--sample: must be >= 0 but got -1");
  expect_refused("plan c.yaml --gpus 8 --tokens-per-s 0", "--tokens-per-s: must be > 0 but got 0");
  expect_refused("plan c.yaml --gpus 8 --share 2", "--share: must be in [0.001, 1] but got 2");
  expect_refused("plan c.yaml --gpus 8 --tokens-per-s 10 --peak 5", "--tokens-per-s");
  expect_refused("reproduce copy-small --check --jobs 3", "--check");
  expect_refused("plot decay --columns 13", "--columns: must be in [1, 12] but got 13");
  expect_refused("plot decay --scale big", "--scale: must be a number but got 'big'");
}

TEST(Ranges, EndsAreAllowed) {
  const TemporaryFolder folder;
  const std::string here = "cd " + folder.path() + " && ";
  EXPECT_EQ(run("plot decay --columns 12 --scale 0.25 --panel-width 80", here).code, 0);
  EXPECT_EQ(run("plot decay --columns 1 --scale 8.0 --panel-width 2e3", here).code, 0);
}

TEST(Ranges, OfTheLab) {
  POSENC_NEEDS_LIBTORCH();
  expect_refused("eval run --threads -1", "--threads: must be in [0, 1024] but got -1");
  expect_refused("train c.yaml --minutes nan", "--minutes: must be finite but got nan");
  expect_refused("train c.yaml --minutes 0", "--minutes: must be > 0 but got 0");
  expect_refused("generate run --prompt x --temperature nan",
                 "--temperature: must be finite but got nan");
}

TEST(Ranges, SamplesAreNumberedBy64Bits) {
  const TemporaryFolder folder;
  write_content(folder / "c.yaml", "task: parity\ntrain: {length: 8}\n");
  const std::string sample = "sample " + (folder / "c.yaml") + " --count 2 --first ";
  expect_refused(sample + "9223372036854775807",
                 "--first must be at most 9223372036854775805 with --count 2");
  EXPECT_EQ(run(sample + "9223372036854775805").code, 0);
}

TEST(Ranges, MemoryIsInBytes) {
  const TemporaryFolder folder;
  write_content(folder / "c.yaml", "task: parity\ntrain: {batch: 64, length: 32}\n");
  const std::string plan = "plan " + (folder / "c.yaml") + " --gpus 8 ";
  expect_refused(plan + "--memory nan", "--memory must be a number above 0 and MB, GB or TB");
  expect_refused(plan + "--memory 400Gbit", "MB, GB or TB but got '400Gbit'; for example 80GB");
  expect_refused(plan + "--network nan", "Mbit, Gbit, Tbit, MB, GB or TB but got 'nan'");
}

}  // namespace
}  // namespace posenc::testing
