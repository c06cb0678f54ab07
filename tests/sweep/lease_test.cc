// Leases: one holder at a time, with processes that race, die, hang or have other clocks.
#include "sweep/lease.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>

#include "posenc/core/error.h"
#include "support/temporary_folder.h"

namespace posenc::sweep {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;

// As a process of another machine, whose numbers mean nothing here.
Holder far_holder(const std::string& host, double limit = 10.0) {
  Holder holder = this_holder("far", limit);
  holder.host = host;
  holder.process = "another boot/pid:[1]/5";
  return holder;
}

class LeaseTest : public ::testing::Test {
 protected:
  Watch watch() {
    return Watch([this] { return now_; });
  }
  std::optional<Lease> take(const Holder& holder, Watch& watch) {
    return Lease::take(lease_, holder, watch, [this] { return now_; });
  }
  // Beats where the clock of its holder says so.
  [[nodiscard]] std::string beat(int number) const {
    return testing::file_content(lease_ / (std::to_string(number) + ".beat"));
  }

  testing::TemporaryFolder folder_;
  fs::path lease_ = lease_folder(folder_.path(), "abc");
  Watch::Clock::time_point now_ = Watch::Clock::time_point(seconds(1000));
};

TEST_F(LeaseTest, IsHeldUntilItEndsAndRemembersEveryAttempt) {
  Watch one = watch();
  auto first = take(far_holder("a"), one);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->number(), 1);
  Watch other = watch();
  EXPECT_FALSE(take(far_holder("b"), other));
  first->end({AttemptState::kFailed, "the disk is full"});
  auto second = take(far_holder("b"), other);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->number(), 2);
  const auto all = attempts(lease_);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].holder, far_holder("a"));
  ASSERT_TRUE(all[0].end);
  EXPECT_EQ(all[0].end->message, "the disk is full");
  EXPECT_FALSE(all[1].end);
}

TEST_F(LeaseTest, IsLostAfterItsLimitByTheClockOfTheWatcher) {
  Watch own = watch();
  auto lease = take(far_holder("a", 10.0), own);
  ASSERT_TRUE(lease);
  // Times of files and texts of a machine whose clock is ten years off.
  const auto far_off = fs::file_time_type::clock::now() - std::chrono::hours(87600);
  fs::last_write_time(lease_ / "1", far_off);
  fs::last_write_time(lease_ / "1.beat", far_off);
  Watch watcher = watch();
  EXPECT_FALSE(take(far_holder("b"), watcher)) << "the first look says nothing";
  now_ += seconds(10);
  EXPECT_FALSE(take(far_holder("b"), watcher)) << "not past the limit yet";
  EXPECT_TRUE(lease->keep()) << "and it beats";
  now_ += seconds(9);
  EXPECT_FALSE(take(far_holder("b"), watcher)) << "the beat counts from when it was seen";
  now_ += seconds(11);
  auto taken = take(far_holder("b"), watcher);
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->number(), 2);
  EXPECT_FALSE(lease->keep()) << "the first holder learns that it lost";
  EXPECT_FALSE(lease->keep());
  EXPECT_TRUE(taken->keep());
  lease->end({AttemptState::kFinished, ""});  // late
  Watch third = watch();
  EXPECT_FALSE(take(far_holder("c"), third)) << "the end of an older attempt frees nothing";
}

TEST_F(LeaseTest, AWatcherThatSeesTheHeartbeatKnowsThatItLives) {
  Watch own = watch();
  auto lease = take(far_holder("a", 12.0), own);
  Watch watcher = watch();
  EXPECT_EQ(watcher.look(*last_attempt(lease_)), Watch::Sight::kWaiting);
  now_ += seconds(1);
  EXPECT_TRUE(lease->keep());
  EXPECT_EQ(watcher.look(*last_attempt(lease_)), Watch::Sight::kWaiting) << "no beat was due";
  now_ += seconds(1);
  EXPECT_TRUE(lease->keep());
  EXPECT_EQ(watcher.look(*last_attempt(lease_)), Watch::Sight::kBeats);
}

TEST_F(LeaseTest, AHolderThatCannotBeatStopsByItself) {
  Watch own = watch();
  auto lease = take(far_holder("a", 12.0), own);
  fs::remove(lease_ / "1.beat");
  fs::create_directory(lease_ / "1.beat");
  now_ += seconds(11);
  EXPECT_TRUE(lease->keep());
  now_ += seconds(2);
  EXPECT_FALSE(lease->keep()) << "others may count it as dead by now";
  fs::remove(lease_ / "1.beat");
}

TEST_F(LeaseTest, AProcessOfThisMachineThatIsGoneIsReplacedImmediately) {
  const pid_t child = ::fork();
  if (child == 0) {
    Watch own;
    auto lease = Lease::take(lease_, this_holder(), own);
    if (lease) ::raise(SIGKILL);
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  ASSERT_TRUE(last_attempt(lease_));
  EXPECT_EQ(life_of(last_attempt(lease_)->holder), Life::kGone);
  Watch own = watch();
  EXPECT_TRUE(take(this_holder(), own));
}

TEST_F(LeaseTest, AProcessOfThisMachineThatLivesIsLeftAloneHoweverLongItTakes) {
  Watch one = watch();
  auto lease = take(this_holder("", 1.0), one);
  EXPECT_EQ(life_of(last_attempt(lease_)->holder), Life::kAlive);
  Watch watcher = watch();
  EXPECT_FALSE(take(this_holder(), watcher));
  now_ += seconds(100);
  EXPECT_FALSE(take(this_holder(), watcher));
}

TEST_F(LeaseTest, ALeaseThatGoesOutOfScopeIsFree) {
  Watch own = watch();
  { auto lease = take(far_holder("a"), own); }
  ASSERT_TRUE(last_attempt(lease_)->end);
  EXPECT_EQ(last_attempt(lease_)->end->state, AttemptState::kStopped);
}

TEST_F(LeaseTest, DamagedFilesAreHeldByAnUnknownHolderUntilTheLimit) {
  fs::create_directories(lease_);
  testing::write_content(lease_ / "1", "{\"host\": ");
  EXPECT_EQ(holder_text(last_attempt(lease_)->holder), "unknown");
  Watch watcher = watch();
  EXPECT_FALSE(take(far_holder("a"), watcher));
  now_ += seconds(static_cast<int>(kLeaseSeconds) + 1);
  EXPECT_TRUE(take(far_holder("a"), watcher));
}

TEST_F(LeaseTest, NamesItsHolder) {
  Holder holder = far_holder("node7");
  holder.pid = 42;
  EXPECT_EQ(holder_text(holder), "host node7, process 42");
  ::setenv("SLURM_ARRAY_JOB_ID", "12", 1);
  ::setenv("SLURM_ARRAY_TASK_ID", "3", 1);
  ::setenv("SLURM_JOB_ID", "15", 1);
  EXPECT_EQ(this_holder().job, "12_3");
  ::unsetenv("SLURM_ARRAY_JOB_ID");
  EXPECT_EQ(this_holder().job, "15");
  ::unsetenv("SLURM_ARRAY_TASK_ID");
  ::unsetenv("SLURM_JOB_ID");
}

TEST_F(LeaseTest, WhatKilledProcessesLeftIsRemoved) {
  Watch own = watch();
  auto lease = take(far_holder("a"), own);
  testing::write_content(lease_ / "claim.tmp-0123abcd", "{");
  testing::write_content(lease_ / "1.end.tmp-0123abcd", "{");
  tidy_leases(folder_.path());
  EXPECT_FALSE(fs::exists(lease_ / "claim.tmp-0123abcd"));
  EXPECT_FALSE(fs::exists(lease_ / "1.end.tmp-0123abcd"));
  EXPECT_TRUE(fs::exists(lease_ / "1"));
}

// ---- races ----------------------------------------------------------------------------------------------

// Starts `count` processes that wait for a common start, run `work` and end; what they wrote with say() is returned.
class Race {
 public:
  explicit Race(std::string log) : log_(std::move(log)) {}

  template <class Work>
  void run(int count, const Work& work) {
    std::array<int, 2> gate{};
    ASSERT_EQ(::pipe(gate.data()), 0);
    std::vector<pid_t> children;
    for (int i = 0; i < count; ++i) {
      const pid_t child = ::fork();
      if (child == 0) {
        ::close(gate[1]);
        char byte = 0;
        (void)!::read(gate[0], &byte, 1);  // ends when the parent closes it
        work(i);
        ::_exit(0);
      }
      children.push_back(child);
    }
    ::close(gate[0]);
    ::close(gate[1]);
    for (const pid_t child : children) {
      int status = 0;
      ::waitpid(child, &status, 0);
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
  }
  void say(const std::string& line) const {
    const int file = ::open(log_.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0666);
    (void)!::write(file, (line + "\n").data(), line.size() + 1);
    ::close(file);
  }

 private:
  std::string log_;
};

TEST_F(LeaseTest, OfManyProcessesThatRaceForANewLeaseExactlyOneGetsIt) {
  for (int round = 0; round < 10; ++round) {
    const std::string log = folder_ / ("log" + std::to_string(round));
    const fs::path lease = lease_folder(folder_.path(), "r" + std::to_string(round));
    Race race(log);
    race.run(24, [&](int i) {
      Watch own;
      auto taken = Lease::take(lease, far_holder("h" + std::to_string(i)), own);
      if (taken) {
        race.say("taken");
        ::_exit(0);  // without an end: it dies as the holder
      }
    });
    EXPECT_EQ(testing::file_content(log), "taken\n") << "round " << round;
    EXPECT_EQ(attempts(lease).size(), 1U);
  }
}

TEST_F(LeaseTest, OfManyProcessesThatRaceForALostLeaseExactlyOneTakesItOver) {
  constexpr int kRounds = 10;
  constexpr int kProcesses = 24;
  Watch own;
  { ASSERT_TRUE(Lease::take(lease_, far_holder("dead", 1.0), own)); }
  fs::remove(lease_ / "1.end");  // as if it had died
  for (int round = 1; round <= kRounds; ++round) {
    const std::string log = folder_ / ("log" + std::to_string(round));
    // Each process has a clock of its own, years apart, and one of them is slow. All have seen the same attempt.
    std::array<Watch::Clock::time_point, kProcesses> clocks;
    std::vector<Watch> watches;
    for (int i = 0; i < kProcesses; ++i) {
      clocks[i] = Watch::Clock::time_point(std::chrono::hours(i * 10000));
      watches.emplace_back([&clocks, i] { return clocks[i]; });
      EXPECT_FALSE(Lease::take(lease_, far_holder("h", 1.0), watches[i])) << "too early";
    }
    Race race(log);
    race.run(kProcesses, [&](int i) {
      clocks[i] += std::chrono::milliseconds(i == 0 ? 900 : 1100);
      auto taken = Lease::take(lease_, far_holder("h" + std::to_string(i), 1.0), watches[i]);
      if (!taken) return;
      race.say(i == 0 ? "too early" : "taken");
      ::_exit(0);  // without an end: it dies as the holder
    });
    EXPECT_EQ(testing::file_content(log), "taken\n") << "round " << round;
    EXPECT_EQ(attempts(lease_).size(), static_cast<std::size_t>(round) + 1);
  }
}

TEST_F(LeaseTest, WorkThatManyProcessesShareIsDoneOncePerTurn) {
  constexpr int kProcesses = 12;
  constexpr int kTurns = 20;
  const std::string log = folder_ / "turns";
  const std::string inside = folder_ / "inside";
  Race race(log);
  race.run(kProcesses, [&](int) {
    Watch own;
    for (int turns = 0; turns < kTurns;) {
      auto lease = Lease::take(lease_, this_holder(), own);
      if (!lease) continue;
      const int file = ::open(inside.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0666);
      race.say(file < 0 ? "two at a time" : "one");
      ::close(file);
      ::unlink(inside.c_str());
      lease->end({AttemptState::kStopped, ""});
      ++turns;
    }
  });
  const std::string said = testing::file_content(log);
  EXPECT_EQ(said.find("two"), std::string::npos);
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), kProcesses * kTurns);
  EXPECT_EQ(attempts(lease_).size(), static_cast<std::size_t>(kProcesses) * kTurns);
}

}  // namespace
}  // namespace posenc::sweep
