// posenc attention as a user meets it. Records lie in the runs already, so that nothing needs libtorch.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "cli/run_cli.h"
#include "runs/attention_case.h"
#include "runs/run_directory.h"
#include "support/paths.h"
#include "support/temporary_folder.h"
#include "system/process.h"

namespace posenc::testing {
namespace {

namespace fs = std::filesystem;

class AttentionVerb : public ::testing::Test {
 protected:
  AttentionVerb() {
    first_ = with_record("first", attention_record(16, 2, {"rope", "cope"}));
    second_ = with_record("second", attention_record(16, 2, {"alibi", "alibi"}, 4));
  }
  // A run without checkpoints, whose record of sample 3 is all there is.
  std::string with_record(const std::string& name, const runs::AttentionRecord& record) {
    const std::string run = folder_ / name;
    runs::RunDirectory::create(run, {"task: selective_counting\ntrain: {length: 16}\n",
                                     "0123456789abcdef", Value(Value::Data(Value::Map{}))});
    runs::write_attention(runs::attention_path(run, "train", 16, 3), record);
    return run;
  }
  static void expect_mistake(const std::string& arguments, const std::string& part) {
    const Result result = run("attention " + arguments);
    EXPECT_EQ(result.code, 2) << result.out;
    EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 1) << result.out;
    EXPECT_NE(result.out.find(part), std::string::npos) << result.out;
  }
  TemporaryFolder folder_;
  std::string first_, second_;
};

TEST_F(AttentionVerb, DrawsAllHeadsAndSaysHowFarTheyLook) {
  const std::string svg = folder_ / "all.svg";
  const Result result = run("attention " + first_ + " --sample 3 -o " + svg);
  ASSERT_EQ(result.code, 0) << result.out;
  EXPECT_NE(result.out.find("first: selective_counting, axis train, 16 tokens, sample 3"),
            std::string::npos)
      << result.out;
  EXPECT_NE(result.out.find("% on the instruction"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find(svg), std::string::npos) << result.out;
  const std::string text = file_content(svg);
  for (const char* title : {"layer 0, head 0", "layer 0, head 1", "layer 1, head 1"}) {
    EXPECT_NE(text.find(title), std::string::npos) << title;
  }
}

TEST_F(AttentionVerb, DrawsChosenHeadsInFull) {
  const std::string csv = folder_ / "head.csv";
  const Result result = run("attention " + first_ + " --sample 3 --layer 1 --head 0 -o " +
                            (folder_ / "head.svg") + " --data " + csv);
  ASSERT_EQ(result.code, 0) << result.out;
  const std::string rows = file_content(csv);
  EXPECT_NE(rows.find("layer 1, head 0: gates"), std::string::npos);
  EXPECT_EQ(rows.find("layer 0"), std::string::npos);
}

TEST_F(AttentionVerb, ComparesTwoRuns) {
  const Result result = run("attention " + first_ + " --sample 3 --against " + second_ + " -o " +
                            (folder_ / "both.svg"));
  ASSERT_EQ(result.code, 0) << result.out;
  EXPECT_NE(result.out.find("total variation"), std::string::npos) << result.out;
  EXPECT_NE(file_content(folder_ / "both.svg").find("second (alibi) minus first (rope, cope)"),
            std::string::npos);
  auto other = attention_record(16, 2, {"rope", "rope"});
  other.example.tokens[4] = "Z";
  expect_mistake(first_ + " --sample 3 --against " + with_record("third", other),
                 "token 4 is 'E' in first and 'Z' in third");
}

TEST_F(AttentionVerb, AFolderThatCannotBeWrittenIsNamed) {
  const Result result =
      run("attention " + first_ + " --sample 3 --again -o " + (folder_ / "a.svg"), "TMPDIR=/proc ");
  EXPECT_EQ(result.code, 2) << result.out;
  EXPECT_NE(result.out.find("[/proc] cannot be written: "), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("set TMPDIR"), std::string::npos) << result.out;
}

// The program beside a posenc-lab that takes minutes: asked to stop, both end, and no log is left.
TEST_F(AttentionVerb, ASignalEndsTheProgramThatComputesToo) {
  fs::copy_file(kCliPath, folder_ / "posenc");
  const std::string lab = folder_ / "posenc-lab";
  std::ofstream(lab) << "#!/bin/sh\necho $$ > " << (folder_ / "lab.pid") << "\nexec sleep 300\n";
  fs::permissions(lab, fs::perms::owner_all);
  fs::create_directory(folder_ / "tmp");
  Process posenc({.words = {folder_ / "posenc", "attention", first_, "--sample", "3", "--again"},
                  .folder = "",
                  .output = folder_ / "log",
                  .environment = {{"TMPDIR", folder_ / "tmp"}}});
  std::string started;
  for (int i = 0; i < 3000 && started.empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (fs::exists(folder_ / "lab.pid")) started = file_content(folder_ / "lab.pid");
  }
  ASSERT_FALSE(started.empty()) << file_content(folder_ / "log");
  posenc.signal(SIGTERM);
  const Ending ending = posenc.wait();
  EXPECT_EQ(ending.code, 128 + SIGTERM) << ending_text(ending);
  EXPECT_EQ(::kill(std::stoi(started), 0), -1) << "posenc-lab lives on";
  EXPECT_TRUE(fs::is_empty(folder_ / "tmp"));
}

TEST_F(AttentionVerb, MistakesAreOneLineAndWriteNothing) {
  const std::string out = folder_ / "none.svg";
  expect_mistake(first_ + " --sample 3 --layer 7 -o " + out, "layer must be one of 2");
  expect_mistake(first_ + " --sample 3 -o " + (folder_ / "none.gif"), "none.gif");
  expect_mistake(folder_ / "nowhere", "nowhere");
  if (fs::exists(fs::path(kCliPath).parent_path() / "posenc-lab")) {
    expect_mistake(first_ + " --sample 4 -o " + out, "has no checkpoint");
  }
  EXPECT_FALSE(fs::exists(out));
}

}  // namespace
}  // namespace posenc::testing
