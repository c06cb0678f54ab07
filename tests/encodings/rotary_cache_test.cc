#include "posenc/encodings/rotary_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "posenc/core/error.h"

namespace posenc {
namespace {

constexpr ModelShape kShape{.head_dim = 16, .heads = 2};
constexpr std::int64_t kRowBytes = 2 * 8 * 4;

Rotary rope() { return make_rotary(Rope{}, kShape, Lengths{}); }

void expect_exact_row(const RotaryCache& cache, Role role, std::int64_t position) {
  std::vector<float> scratch(cache.row_floats());
  const RotaryCache::Row row = cache.row(role, position, scratch);
  std::vector<double> cos(8);
  std::vector<double> sin(8);
  for (std::int64_t group = 0; group < cache.rotary().groups(); ++group) {
    rotary_row(cache.rotary(), role, group, std::span(&position, 1), cos, sin);
    for (std::size_t p = 0; p < 8; ++p) {
      const std::size_t at = static_cast<std::size_t>(group) * 8 + p;
      EXPECT_EQ(row.cos[at], static_cast<float>(cos[p])) << position;
      EXPECT_EQ(row.sin[at], static_cast<float>(sin[p])) << position;
    }
  }
}

TEST(RotaryCache, EveryPolicyGivesTheSameRows) {
  using Mode = CachePolicy::Mode;
  for (const Mode mode : {Mode::kPrecomputed, Mode::kOnDemand, Mode::kHybrid}) {
    const RotaryCache cache(rope(), {.mode = mode, .length = 100, .block = 7});
    for (const std::int64_t position : {0, 1, 50, 99})
      expect_exact_row(cache, Role::kQuery, position);
    if (mode == Mode::kPrecomputed) continue;
    for (const std::int64_t position : {100, 106, 107, 16777216}) {
      expect_exact_row(cache, Role::kKey, position);
    }
  }
}

TEST(RotaryCache, GroupsOfHeadsAndXposRolesKeepTheirOwnTables) {
  const RotaryCache groups(make_rotary(Rope{.theta = {1e4, 1e5}}, kShape, Lengths{}),
                           {.length = 4});
  expect_exact_row(groups, Role::kQuery, 3);
  const RotaryCache xpos(make_rotary(Xpos{.center = 0.0}, kShape, Lengths{}),
                         {.length = 4, .block = 4});
  for (const std::int64_t position : {0, 3, 4, 9}) {
    expect_exact_row(xpos, Role::kQuery, position);
    expect_exact_row(xpos, Role::kKey, position);
  }
  EXPECT_EQ(xpos.bytes(), 2 * (4 + 2 * 4) * kRowBytes) << "a table for queries and one for keys";
}

TEST(RotaryCache, MemoryIsCounted) {
  const RotaryCache cache(rope(), {.length = 100, .block = 10});
  EXPECT_EQ(cache.bytes(), 100 * kRowBytes);
  std::vector<float> scratch(cache.row_floats());
  (void)cache.row(Role::kQuery, 105, scratch);
  (void)cache.row(Role::kKey, 109, scratch);
  EXPECT_EQ(cache.bytes(), 110 * kRowBytes) << "one block, shared by queries and keys";
  (void)cache.row(Role::kQuery, 1000, scratch);
  EXPECT_EQ(cache.bytes(), 120 * kRowBytes) << "blocks in between are not built";
  const RotaryCache nothing(rope(), {.mode = CachePolicy::Mode::kOnDemand});
  (void)nothing.row(Role::kQuery, 5, scratch);
  EXPECT_EQ(nothing.bytes(), 0);
}

TEST(RotaryCache, TheCapIsAnErrorAndNothingIsLost) {
  const RotaryCache cache(rope(), {.length = 10, .block = 10, .max_bytes = 25 * kRowBytes});
  std::vector<float> scratch(cache.row_floats());
  (void)cache.row(Role::kQuery, 15, scratch);
  for (int again = 0; again < 2; ++again) {
    try {
      (void)cache.row(Role::kQuery, 25, scratch);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kResource);
      EXPECT_NE(std::string(error.what()).find("raise max_bytes"), std::string::npos);
    }
    EXPECT_EQ(cache.bytes(), 20 * kRowBytes);
    expect_exact_row(cache, Role::kQuery, 15);
  }
  EXPECT_THROW(RotaryCache(rope(), {.length = 26, .max_bytes = 25 * kRowBytes}), Error);
  EXPECT_THROW(RotaryCache(rope(), {.length = 1000000000000000}), Error);
}

TEST(RotaryCache, PositionsOutsideAreErrorsNotBadReads) {
  std::vector<float> scratch(16);
  const RotaryCache precomputed(rope(), {.mode = CachePolicy::Mode::kPrecomputed, .length = 10});
  EXPECT_THROW((void)precomputed.row(Role::kQuery, 10, scratch), Error);
  EXPECT_THROW((void)precomputed.row(Role::kQuery, -1, scratch), Error);
  const RotaryCache hybrid(rope(), {.length = 10, .block = 4});
  for (const std::int64_t position : {-1, -4, -5, -9})
    expect_exact_row(hybrid, Role::kQuery, position);
  EXPECT_EQ(hybrid.bytes(), (10 + 3 * 4) * kRowBytes) << "blocks before the start, where asked for";
  const RotaryCache on_demand(rope(), {.mode = CachePolicy::Mode::kOnDemand});
  expect_exact_row(on_demand, Role::kQuery, -5);
  EXPECT_THROW(RotaryCache(rope(), {.block = 0}), Error);
}

// Run under TSan by the tsan preset; here it checks that rows are right and stay where they are.
TEST(RotaryCache, GrowsFromManyThreads) {
  const RotaryCache cache(rope(), {.length = 0, .block = 16});
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&cache, &wrong, t] {
      Rng rng(static_cast<std::uint64_t>(t));
      std::vector<float> scratch(cache.row_floats());
      std::vector<double> cos(8);
      std::vector<double> sin(8);
      for (int i = 0; i < 300; ++i) {
        const std::int64_t position = rng.integer(0, 1000);
        const RotaryCache::Row row = cache.row(Role::kQuery, position, scratch);
        rotary_row(cache.rotary(), Role::kQuery, 0, std::span(&position, 1), cos, sin);
        if (row.cos[3] != static_cast<float>(cos[3])) ++wrong;
        if (cache.row(Role::kQuery, position, scratch).cos != row.cos) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(cache.bytes(), 63 * 16 * kRowBytes) << "no block is counted twice";
}

}  // namespace
}  // namespace posenc
