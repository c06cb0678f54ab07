#include "system/stop_request.h"

#include <gtest/gtest.h>
#include <sys/time.h>

#include <chrono>
#include <thread>

#include "runs/run_case.h"

namespace posenc {
namespace {

using posenc::testing::Child;
using posenc::testing::error_of;

TEST(StopRequest, ASignalIsARequest) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    Child child([&](const Child::Say& say) {
      const StopRequest stop;
      say(std::to_string(stop.exit_code()));
      for (int i = 0; i < 10'000 && !stop.requested(); ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      say(std::to_string(stop.exit_code()));
    });
    ASSERT_EQ(child.line(), "0");
    EXPECT_EQ(child.kill(number), 0) << "it ends by itself";
    EXPECT_EQ(child.line(), std::to_string(128 + number));
  }
}

// coreutils' timeout signals the process and then its group.
TEST(StopRequest, TwoSignalsTogetherAreOneRequest) {
  Child child([](const Child::Say& say) {
    const StopRequest stop;
    ::raise(SIGTERM);
    ::raise(SIGTERM);
    ::raise(SIGINT);
    say(std::to_string(stop.exit_code()));
  });
  EXPECT_EQ(child.line(), "143");
  EXPECT_EQ(child.wait(), 0);
}

TEST(StopRequest, ALaterSignalEndsAtOnce) {
  for (const int second : {SIGINT, SIGTERM, SIGHUP}) {
    Child child([](const Child::Say& say) {
      const StopRequest stop;
      say("ready");
      while (!stop.requested()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      say("asked");
      std::this_thread::sleep_for(std::chrono::seconds(60));  // a save that hangs
    });
    ASSERT_EQ(child.line(), "ready");
    ::kill(child.id(), SIGINT);
    ASSERT_EQ(child.line(), "asked");
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));
    const int status = child.kill(second);
    ASSERT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(WTERMSIG(status), second) << "shells make 128 + the number of it";
  }
}

void wait_for(const StopRequest& stop) {
  for (int i = 0; i < 30'000 && !stop.requested(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TEST(StopRequest, ATimeBoxIsARequestWithAnExitCodeOfItsOwn) {
  StopRequest stop;
  stop.end_within(0.01);
  wait_for(stop);
  EXPECT_TRUE(stop.requested());
  EXPECT_EQ(stop.exit_code(), kTimeIsUp);
  EXPECT_EQ(stop.reason(), "by the time box of 0.01 minutes");
}

TEST(StopRequest, ATimeBoxDoesNotEndBeforeItIsAlmostOver) {
  StopRequest stop;
  stop.end_within(10.0);
  itimerval timer{};
  ::getitimer(ITIMER_REAL, &timer);
  EXPECT_NEAR(static_cast<double>(timer.it_value.tv_sec), 600 - 15, 2) << "15 seconds to save";
}

TEST(StopRequest, ATimeBoxHoldsWhereTheParentIgnoredOrBlockedItsSignal) {
  Child child([](const Child::Say& say) {
    std::signal(SIGALRM, SIG_IGN);
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    sigprocmask(SIG_BLOCK, &alarm, nullptr);
    StopRequest stop;
    stop.end_within(0.001);
    wait_for(stop);
    say(std::to_string(stop.exit_code()));
  });
  EXPECT_EQ(child.line(), "75");
  EXPECT_EQ(child.wait(), 0);
}

// The sweep that a job belongs to may signal it while it saves, and a box may end after a signal.
TEST(StopRequest, OneSignalAfterATimeBoxAndABoxAfterASignalDoNotEndIt) {
  Child after_box([](const Child::Say& say) {
    StopRequest stop;
    stop.end_within(0.001);
    wait_for(stop);
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));
    ::raise(SIGTERM);
    say(std::to_string(stop.exit_code()));
  });
  EXPECT_EQ(after_box.line(), "75");
  EXPECT_EQ(after_box.wait(), 0);
  Child before_box([](const Child::Say& say) {
    const StopRequest stop;
    ::raise(SIGTERM);
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));
    ::raise(SIGALRM);
    say(std::to_string(stop.exit_code()) + stop.reason());
  });
  EXPECT_EQ(before_box.line(), "143by a signal");
  EXPECT_EQ(before_box.wait(), 0);
}

TEST(StopRequest, HandlersComeBackAndIgnoredSignalsStayIgnored) {
  Child child([](const Child::Say& say) {
    std::signal(SIGHUP, SIG_IGN);
    {
      StopRequest stop;
      ::raise(SIGHUP);
      say(stop.requested() ? "asked" : "ignored");
      say(error_of([] { const StopRequest second; }));
      stop.request();
      say(std::to_string(stop.exit_code()));
    }
    {
      const StopRequest fresh;
      say(fresh.requested() ? "old" : "fresh");
    }
    say("done");
    ::raise(SIGTERM);
    say("alive");
  });
  EXPECT_EQ(child.line(), "ignored");
  EXPECT_EQ(child.line(), "[signals] are watched already; pass the first StopRequest on");
  EXPECT_EQ(child.line(), "143");
  EXPECT_EQ(child.line(), "fresh");
  EXPECT_EQ(child.line(), "done");
  EXPECT_EQ(child.line(), "") << "SIGTERM has its usual effect again";
  EXPECT_TRUE(WIFSIGNALED(child.wait()));
}

}  // namespace
}  // namespace posenc
