// The order in which ranks visit slices of keys: every visible pair once, from the last keys to the first.
#include "parallel/ring_schedule.h"

#include <gtest/gtest.h>

namespace posenc::parallel {
namespace {

std::vector<int> visits(const RingSchedule& schedule, int rank) {
  std::vector<int> slices;
  for (int step = 0; step < schedule.world(); ++step) {
    if (schedule.slice(rank, step) >= 0) slices.push_back(schedule.slice(rank, step));
  }
  return slices;
}

using Slices = std::vector<int>;

TEST(RingSchedule, CausalRowsGoFromTheirOwnKeysDownToTheFirst) {
  const RingSchedule schedule({3, 2, 2, 2}, {.causal = true}, true);
  EXPECT_EQ(visits(schedule, 0), Slices({0}));
  EXPECT_EQ(visits(schedule, 2), Slices({2, 1, 0}));
  EXPECT_EQ(visits(schedule, 3), Slices({3, 2, 1, 0}));
  EXPECT_EQ(schedule.first(2), 5);
}

// A step is then one message to and one from each rank at most.
TEST(RingSchedule, RanksVisitDifferentSlicesAtAStep) {
  const RingSchedule schedule({2, 2, 2}, {}, false);
  EXPECT_EQ(visits(schedule, 0), Slices({0, 2, 1}));
  EXPECT_EQ(visits(schedule, 1), Slices({1, 0, 2}));
  for (int step = 1; step < 3; ++step) {
    for (int slice = 0; slice < 3; ++slice) {
      EXPECT_EQ(schedule.visitors(slice, step).size(), 1u);
    }
  }
}

TEST(RingSchedule, SumsOverKeysAfterTheQueryFixOneOrderForAll) {
  const RingSchedule schedule({2, 2, 2}, {}, true);
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(visits(schedule, rank), Slices({2, 1, 0}));
  EXPECT_EQ(schedule.visitors(2, 0), Slices({0, 1}));
}

TEST(RingSchedule, SlicesOutsideAWindowAreNotVisited) {
  const RingSchedule causal({10, 10, 10, 10}, {.causal = true, .window_left = 5}, false);
  EXPECT_EQ(visits(causal, 3), Slices({3, 2}));
  EXPECT_TRUE(causal.visitors(0, 2).empty());
  const RingSchedule near({10, 10, 10}, {.window_left = 0, .window_right = 0}, false);
  EXPECT_EQ(visits(near, 1), Slices({1}));
  const RingSchedule edge({10, 10, 10}, {.window_left = 1, .window_right = 10}, false);
  EXPECT_EQ(visits(edge, 1), Slices({1, 0, 2}));
}

}  // namespace
}  // namespace posenc::parallel
