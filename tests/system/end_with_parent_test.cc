#include "system/end_with_parent.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>

namespace posenc {
namespace {

// A child that starts a grandchild and dies. The grandchild says whether it is there, and then waits: the pipe is
// closed when it ends. Returns what was read before that, after `seconds` at the latest.
std::string said_by_grandchild(bool named) {
  std::array<int, 2> pipe{};
  std::array<int, 2> ready{};
  if (::pipe(pipe.data()) != 0 || ::pipe(ready.data()) != 0) return "no pipe";
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string own = named ? std::to_string(::getpid()) : "1";
    ::setenv("END_WITH", own.c_str(), 1);
    if (::fork() == 0) {
      end_with_parent("END_WITH");
      (void)!::write(ready[1], "r", 1);
      ::sleep(2);
      (void)!::write(pipe[1], "outlived", 8);
      ::_exit(0);
    }
    char byte = 0;
    (void)!::read(ready[0], &byte, 1);
    ::_exit(0);
  }
  ::close(pipe[1]);
  ::waitpid(child, nullptr, 0);
  std::string said(16, '\0');
  const ssize_t got = ::read(pipe[0], said.data(), said.size());
  said.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  for (const int file : {pipe[0], ready[0], ready[1]}) ::close(file);
  return said;
}

TEST(EndWithParent, EndsAProcessWhoseWorkerDied) { EXPECT_EQ(said_by_grandchild(true), ""); }

TEST(EndWithParent, LeavesOthersAlone) { EXPECT_EQ(said_by_grandchild(false), "outlived"); }

}  // namespace
}  // namespace posenc
