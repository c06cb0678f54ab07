#include "system/captured.h"

#include <gtest/gtest.h>

#include "posenc/core/error.h"

namespace posenc {
namespace {

TEST(Captured, HasBothStreamsAndTheEnding) {
  const Captured got = run_captured({"/bin/sh", "-c", "echo one; echo two >&2; exit 3"});
  EXPECT_EQ(got.output, "one\ntwo\n");
  EXPECT_EQ(got.ending.code, 3);
  EXPECT_FALSE(got.fine());
  EXPECT_TRUE(run_captured({"true"}).fine());
}

TEST(Captured, AProgramThatHangsIsKilled) {
  const Captured got =
      run_captured({"/bin/sh", "-c", "echo said; sleep 600"}, std::chrono::milliseconds(200));
  EXPECT_TRUE(got.timed_out);
  EXPECT_EQ(got.output, "said\n");
}

TEST(Captured, AMissingProgramIsAnError) {
  EXPECT_THROW((void)run_captured({"no-such-program"}), Error);
  EXPECT_FALSE(is_on_path("no-such-program"));
  EXPECT_TRUE(is_on_path("sh"));
}

}  // namespace
}  // namespace posenc
