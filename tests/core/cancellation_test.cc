#include "core/cancellation.h"

#include <gtest/gtest.h>

#include "core/failure.h"
#include "core/thread_pool.h"
#include "posenc/core/threads.h"

namespace posenc {
namespace {

TEST(Cancellation, LeavesOutTasksThatHaveNotBegun) {
  constexpr std::int64_t kTasks = 1000;
  for (const int threads : {1, 3}) {
    set_num_threads(threads);
    std::atomic<bool> flag = false;
    std::atomic<std::int64_t> done = 0;
    {
      const Cancellation scope(&flag);
      parallel_for(kTasks, [&](std::int64_t /*task*/, int /*worker*/) {
        if (++done == 10) flag = true;
      });
      EXPECT_THROW(throw_if_cancelled(), Interrupted);
    }
    EXPECT_GE(done, 10);
    EXPECT_LT(done, 10 + threads) << "only what had begun went on";
    EXPECT_NO_THROW(throw_if_cancelled());
    done = 0;
    parallel_for(kTasks, [&](std::int64_t /*task*/, int /*worker*/) { ++done; });
    EXPECT_EQ(done, kTasks) << "the flag counts within its scope alone";
  }
  set_num_threads(0);
}

TEST(Cancellation, ANullFlagKeepsTheOuterOne) {
  const std::atomic<bool> up = true;
  const Cancellation outer(&up);
  const Cancellation inner(nullptr);
  EXPECT_THROW(throw_if_cancelled(), Interrupted);
}

TEST(FailureText, IsOneLine) {
  EXPECT_EQ(failure_text(std::bad_alloc()), "out of memory");
  EXPECT_EQ(failure_text(std::runtime_error("no luck\nException raised from f\nframe #0: g")),
            "no luck");
  EXPECT_EQ(failure_text(std::runtime_error(
                "[enforce fail at alloc_cpu.cpp:121] err == 0. DefaultCPUAllocator: can't allocate "
                "memory: you tried to allocate 8 bytes. Error code 12\nframe #0")),
            "out of memory: DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 "
            "bytes. Error code 12");
}

}  // namespace
}  // namespace posenc
