#include "sweep/time_box.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <limits>

#include "posenc/core/error.h"
#include "runs/files.h"
#include "sweep/sweep_case.h"

namespace posenc::sweep {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A clock that stands until it is moved.
struct SetClock {
  TimeBox::Clock::time_point time{};
  [[nodiscard]] TimeBox::Now now() {
    return [this] { return time; };
  }
};

TEST(TimeBoxTest, TheMarginIsAShareOfTheBoxWithinBounds) {
  const auto margin = [](double minutes) { return TimeBox(minutes).margin().count(); };
  EXPECT_DOUBLE_EQ(margin(0.1), 3.0) << "half of six seconds";
  EXPECT_DOUBLE_EQ(margin(1.0), 10.0);
  EXPECT_DOUBLE_EQ(margin(10.0), 30.0);
  EXPECT_DOUBLE_EQ(margin(60.0), 60.0);
}

TEST(TimeBoxTest, TheServiceGetsAQuarterOfTheMarginAtMost) {
  EXPECT_EQ(TimeBox(0.1).service_limit(), milliseconds(750));
  EXPECT_EQ(TimeBox(10.0).service_limit(), milliseconds(7500));
  EXPECT_EQ(TimeBox(60.0).service_limit(), kServiceLimit);
}

TEST(TimeBoxTest, JobsStartThenSaveThenAreKilled) {
  SetClock clock;
  const TimeBox box(10.0, clock.now());  // a margin of 30 s
  EXPECT_TRUE(box.may_start());
  EXPECT_EQ(box.job_minutes(), "9.5000") << "what is left before the margin";
  clock.time += seconds(569);
  EXPECT_TRUE(box.may_start());
  EXPECT_EQ(box.job_minutes(), "0.0167");
  EXPECT_FALSE(box.asks_to_save());
  clock.time += milliseconds(950);
  EXPECT_FALSE(box.may_start()) << "a job could do nothing in 50 ms";
  EXPECT_FALSE(box.asks_to_save());
  clock.time += milliseconds(50);
  EXPECT_TRUE(box.asks_to_save());
  EXPECT_FALSE(box.kills());
  clock.time += seconds(27);
  EXPECT_FALSE(box.kills());
  clock.time += seconds(1);
  EXPECT_TRUE(box.kills()) << "two seconds before the end";
}

TEST(TimeBoxTest, OnlyPositiveNumbersAreBoxes) {
  for (const double minutes : {0.0, -1.0, 2e6, std::numeric_limits<double>::infinity(),
                               std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THROW(TimeBox{minutes}, Error) << minutes;
  }
  EXPECT_DOUBLE_EQ(TimeBox(0.25).minutes(), 0.25);
}

// The clock of the box is moved when jobs say so.
class BoxedSweep : public testing::SweepCase {
 protected:
  BoxedSweep() { options_.time_box.emplace(10.0, clock_.now()); }

  // Moves the clock by `by` once the calls hold `count` times `part`, as seen by the loop of the sweep.
  void move_after(const std::string& part, std::size_t times, seconds by) {
    options_.stop = [this, part, times, by, before = options_.stop, moved = false]() mutable {
      if (!moved && count(part) >= times) {
        moved = true;
        clock_.time += by;
      }
      return before();
    };
  }
  SetClock clock_;
};

constexpr const char* kWaits =
    "trap 'status stopped; say saved; exit 143' TERM\nstatus running\nsay \"ready $minutes\"\n"
    "[ $resume = yes ] || while :; do sleep 0.02; done\n";

TEST_F(BoxedSweep, JobsThatDoNotEndInTimeAreAskedToSaveAndGoOnLater) {
  for (int seed = 0; seed < 5; ++seed) act(seed, kWaits);
  move_after("ready 9.5000", 2, seconds(571));
  const auto reports = run();
  EXPECT_EQ(count("saved"), 2U) << "each once\n" << calls();
  EXPECT_EQ(tally(reports).stopped, 2U);
  EXPECT_EQ(tally(reports).boxed, 2U);
  EXPECT_EQ(tally(reports).failed, 0U);
  EXPECT_EQ(tally(reports).waiting, 3U) << "no further job started";
  EXPECT_EQ(reports[0].message, "the time box ended");
  const Value value = runs::read_json(folder_ / "out/sweep.json");
  EXPECT_EQ(*value.find("counts")->find("boxed")->get_if<std::int64_t>(), 2);
  EXPECT_EQ(to_json(*value.find("minutes")), "10");
  for (int seed = 2; seed < 5; ++seed) act(seed, "");
  options_.stop = [] { return 0; };
  options_.time_box.emplace(10.0, clock_.now());
  EXPECT_EQ(tally(run()).finished, 5U);
  EXPECT_EQ(count("start resume=yes"), 2U);
}

TEST_F(BoxedSweep, AJobThatEndsByItselfInTimeIsStoppedAndTheLastToStart) {
  for (int seed = 0; seed < 5; ++seed) act(seed, "status stopped 'time box'; exit 75\n");
  options_.jobs = 1;
  const auto reports = run();
  EXPECT_EQ(reports[0].state, JobState::kStopped);
  EXPECT_TRUE(reports[0].boxed);
  EXPECT_EQ(count("start"), 1U) << calls();
  options_.time_box.reset();
  EXPECT_EQ(tally(run()).failed, 5U) << "without a box the code means nothing";
}

TEST_F(BoxedSweep, AJobThatIgnoresTheRequestIsKilledAtTheEnd) {
  act(0, "trap 'say deaf' TERM\nsay ready\nwhile :; do sleep 0.02; done\n");
  options_.jobs = 1;
  move_after("ready", 1, seconds(571));
  move_after("deaf", 1, seconds(28));
  const auto reports = run();
  EXPECT_EQ(reports[0].state, JobState::kStopped);
  EXPECT_TRUE(reports[0].boxed);
  EXPECT_EQ(count("deaf"), 1U);
}

TEST_F(BoxedSweep, AJobThatWasSignalledGetsNoSecondSignalFromTheBox) {
  act(0, "trap 'say asked' TERM\nsay ready\nwhile :; do sleep 0.02; done\n");
  options_.jobs = 1;
  options_.stop = [this] { return count("ready") == 1 ? SIGTERM : 0; };
  move_after("asked", 1, seconds(571));
  int turns = 0;
  options_.kill = [&] { return count("asked") >= 1 && ++turns > 20; };
  const auto reports = run();
  EXPECT_EQ(count("asked"), 1U) << calls();
  EXPECT_FALSE(reports[0].boxed) << "the signal came first";
}

TEST_F(BoxedSweep, FailuresStayFailures) {
  act(0, "echo 'out of luck'; exit 1\n");
  act(1, "status finished\n");
  const auto reports = run();
  EXPECT_EQ(reports[0].state, JobState::kFailed);
  EXPECT_EQ(tally(reports).finished, 4U);
  EXPECT_EQ(tally(reports).boxed, 0U);
}

TEST_F(BoxedSweep, TrainersGetMinutesOnlyInABox) {
  act(0, "say \"got ${minutes-none}\"\n");
  options_.time_box.reset();
  run();
  EXPECT_EQ(count("got none"), 1U) << calls();
}

}  // namespace
}  // namespace posenc::sweep
