#include "runs/stop_request.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "runs/run_case.h"

namespace posenc::runs {
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
}  // namespace posenc::runs
