#include "system/process.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "core/value.h"
#include "posenc/core/error.h"
#include "support/temporary_folder.h"

namespace posenc {
namespace {

using testing::TemporaryFolder;

TEST(Process, RunsWhereAndWithWhatItIsTold) {
  const TemporaryFolder folder;
  const Command command{.words = {"sh", "-c", "pwd; echo \"$A $HOME_IS\"; echo err >&2; exit 3"},
                        .folder = folder.path(),
                        .output = folder / "log",
                        .environment = {{"A", "x y"}, {"HOME_IS", "here"}}};
  const Ending ending = run_command(command);
  EXPECT_EQ(ending.code, 3);
  EXPECT_FALSE(ending.fine());
  EXPECT_EQ(read_file(folder / "log"), folder.path() + "\nx y here\nerr\n");
  run_command(command);
  EXPECT_EQ(read_file(folder / "log").size(), 2 * (folder.path().size() + 14)) << "appends";
}

TEST(Process, ReplacesAVariableThatIsSetAlready) {
  const TemporaryFolder folder;
  ::setenv("POSENC_TEST_VARIABLE", "old", 1);
  run_command({.words = {"sh", "-c", "echo $POSENC_TEST_VARIABLE"},
               .output = folder / "log",
               .environment = {{"POSENC_TEST_VARIABLE", "new"}}});
  EXPECT_EQ(read_file(folder / "log"), "new\n");
  ::unsetenv("POSENC_TEST_VARIABLE");
}

TEST(Process, AMissingProgramIsAnError) {
  try {
    Process process({.words = {"/no/such/program"}});
    FAIL() << "started";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kIo);
    EXPECT_EQ(e.key(), "/no/such/program");
    EXPECT_NE(e.rule().find("No such file"), std::string::npos);
  }
  EXPECT_THROW(Process({.words = {}}), Error);
}

TEST(Process, ASignalReachesTheWholeGroup) {
  const TemporaryFolder folder;
  Process process({.words = {"sh", "-c", "echo up; sleep 30; echo never"},
                   .output = folder / "log",
                   .own_group = true});
  while (last_line(folder / "log").empty()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_FALSE(process.poll().has_value());
  process.signal(SIGTERM);
  const Ending ending = process.wait();
  EXPECT_EQ(ending.signal, SIGTERM);
  EXPECT_NE(ending_text(ending).find("signal 15"), std::string::npos);
  EXPECT_THROW(process.wait(), Error) << "nothing is left to wait for";
  process.signal(SIGTERM);  // harmless
}

TEST(Process, LastLineIsWhatAPersonSawLast) {
  const TemporaryFolder folder;
  testing::write_content(folder / "log", "first\nstep 1\rstep 2\rerror: full\r\n\n  \n");
  EXPECT_EQ(last_line(folder / "log"), "error: full");
  testing::write_content(folder / "long", std::string(1000, 'x'));
  EXPECT_EQ(last_line(folder / "long").size(), 300U);
  EXPECT_EQ(last_line(folder / "none"), "");
}

TEST(Process, CommandsAreShownAsAShellTakesThem) {
  EXPECT_EQ(
      command_text({"posenc", "train", "--set", "model.encoding=rope(theta=1) + alibi", "it's"}),
      "posenc train --set 'model.encoding=rope(theta=1) + alibi' 'it'\\''s'");
}

}  // namespace
}  // namespace posenc
