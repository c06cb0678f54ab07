#include "posenc/core/threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <thread>
#include <vector>

#include "core/thread_pool.h"
#include "posenc/core/rng.h"
#include "posenc/core/tensor_view.h"

namespace posenc {
namespace {

TEST(Threads, EveryTaskRunsOnceForAnyCount) {
  for (const int threads : {1, 2, 5}) {
    set_num_threads(threads);
    EXPECT_EQ(num_threads(), threads);
    for (const std::int64_t tasks : {0, 1, 2, 3, 100, 1000}) {
      std::vector<std::atomic<int>> runs(static_cast<std::size_t>(tasks));
      std::atomic<int> bad_worker = 0;
      parallel_for(tasks, [&](std::int64_t task, int worker) {
        ++runs[static_cast<std::size_t>(task)];
        if (worker < 0 || worker >= threads) ++bad_worker;
      });
      for (const auto& count : runs) ASSERT_EQ(count, 1);
      ASSERT_EQ(bad_worker, 0);
    }
  }
  set_num_threads(0);
  EXPECT_GE(num_threads(), 1);
}

TEST(Threads, NestedAndConcurrentLoopsRunToo) {
  set_num_threads(3);
  std::atomic<int> inner = 0;
  parallel_for(8, [&](std::int64_t, int) { parallel_for(8, [&](std::int64_t, int) { ++inner; }); });
  EXPECT_EQ(inner, 64);
  std::atomic<int> total = 0;
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      for (int i = 0; i < 50; ++i) parallel_for(10, [&](std::int64_t, int) { ++total; });
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(total, 4 * 50 * 10);
  set_num_threads(0);
}

TEST(DType, Float16RoundTripsEveryValue) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float x = float16_to_float(half);
    if (std::isnan(x)) {
      EXPECT_TRUE(std::isnan(float16_to_float(float_to_float16(x))));
    } else {
      ASSERT_EQ(float_to_float16(x), half);
    }
    const float y = bfloat16_to_float(half);
    if (!std::isnan(y)) {
      ASSERT_EQ(float_to_bfloat16(y), half);
    }
  }
}

TEST(DType, StorageRoundsToNearestTiesToEven) {
  EXPECT_EQ(float_to_bfloat16(1.0f + 0x1.0p-8f), 0x3F80);      // a tie, down to even
  EXPECT_EQ(float_to_bfloat16(1.0f + 3 * 0x1.0p-8f), 0x3F82);  // a tie, up to even
  EXPECT_EQ(float_to_float16(1.0f + 0x1.0p-11f), 0x3C00);
  EXPECT_EQ(float_to_float16(1.0f + 3 * 0x1.0p-11f), 0x3C02);
  EXPECT_EQ(float_to_float16(65519.9f), 0x7BFF);
  EXPECT_EQ(float_to_float16(65520.0f), 0x7C00);
  EXPECT_EQ(float_to_float16(0x1.0p-25f), 0);
  EXPECT_EQ(float_to_float16(0x1.8p-25f), 1);
  Rng rng(1);
  for (int i = 0; i < 100000; ++i) {
    const auto x = static_cast<float>(rng.normal());
    ASSERT_LE(std::abs(bfloat16_to_float(float_to_bfloat16(x)) - x), std::abs(x) * 0x1.0p-8f);
    ASSERT_LE(std::abs(float16_to_float(float_to_float16(x)) - x),
              std::abs(x) * 0x1.0p-11f + 3e-8f);
  }
}

}  // namespace
}  // namespace posenc
