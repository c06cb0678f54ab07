// Which rank is to blame, from recorded beats and times.
#include "parallel/judge.h"

#include <gtest/gtest.h>

namespace posenc::parallel {
namespace {

constexpr double kTimeout = 20.0;  // silence: 10 s, or 5 s after a failed exchange; hang: 18 s

TEST(Judge, BeatsAsText) {
  const Beat beat{12, 345};
  EXPECT_EQ(read_beat(beat_text(beat)), beat);
  EXPECT_EQ(read_beat("nonsense"), Beat{});
}

TEST(Judge, RanksThatMoveAreFine) {
  Judge judge(2, kTimeout);
  for (int t = 0; t < 100; ++t) {
    EXPECT_FALSE(judge.look(t, {{t, t / 3}, {t, t / 3}}, false));
  }
}

TEST(Judge, ALongStepOfAllRanksIsFine) {
  Judge judge(2, kTimeout);
  for (int t = 0; t < 100; ++t) EXPECT_FALSE(judge.look(t, {{t, 7}, {t, 7}}, false));
}

TEST(Judge, ARankWithoutABeatIsGone) {
  Judge judge(3, kTimeout);
  for (int t = 0; t <= 10; ++t) {
    EXPECT_FALSE(judge.look(t, {{t, 5}, {t, 5}, {0, 5}}, false)) << t;
  }
  const auto verdict = judge.look(11, {{11, 5}, {11, 5}, {0, 5}}, false);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->rank, 2);
  EXPECT_NE(verdict->text.find("no sign of life for 11.0 s"), std::string::npos);
}

TEST(Judge, SoonerOnceAnExchangeHasFailed) {
  Judge judge(2, kTimeout);
  EXPECT_FALSE(judge.look(0, {{0, 5}, {0, 5}}, true));
  EXPECT_FALSE(judge.look(4, {{4, 5}, {0, 5}}, true));
  const auto verdict = judge.look(6, {{6, 5}, {0, 5}}, true);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->rank, 1);
}

TEST(Judge, ARankThatStaysBehindHangs) {
  Judge judge(2, kTimeout);
  for (int t = 0; t <= 18; ++t) EXPECT_FALSE(judge.look(t, {{t, 4}, {t, 6}}, false)) << t;
  const auto verdict = judge.look(19, {{19, 4}, {19, 6}}, false);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->rank, 0);
  EXPECT_NE(verdict->text.find("hangs"), std::string::npos);
}

// SIGSTOP or `scontrol suspend`: the clock goes on, and ranks go on one after another.
TEST(Judge, TimeInWhichTheJobWasSuspendedDoesNotCount) {
  for (const bool broken : {false, true}) {
    Judge judge(2, kTimeout);
    for (int t = 0; t <= 3; ++t) EXPECT_FALSE(judge.look(t, {{t, 6}, {t, 5}}, false)) << t;
    for (int t = 0; t <= 3; ++t) {
      EXPECT_FALSE(judge.look(1000 + t, {{4 + t, 6}, {3, 5}}, broken)) << t;
    }
    EXPECT_FALSE(judge.look(1004, {{8, 6}, {4, 6}}, broken));
  }
  Judge judge(2, kTimeout);
  for (int t = 0; t <= 3; ++t) EXPECT_FALSE(judge.look(t, {{t, 5}, {t, 5}}, false)) << t;
  for (int t = 0; t <= 9; ++t) EXPECT_FALSE(judge.look(1000 + t, {{4 + t, 5}, {3, 5}}, false)) << t;
  EXPECT_TRUE(judge.look(1010, {{14, 5}, {3, 5}}, false));  // it has not come back
}

TEST(Judge, ARankThatMovesLateDoesNotHang) {
  Judge judge(2, kTimeout);
  for (int t = 0; t < 200; ++t) EXPECT_FALSE(judge.look(t, {{t, t / 10}, {t, 1000}}, false)) << t;
}

}  // namespace
}  // namespace posenc::parallel
