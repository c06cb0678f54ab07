#include "posenc/core/rng.h"

#include <gtest/gtest.h>

#include "posenc/core/error.h"
#include "posenc/core/status.h"

namespace posenc {
namespace {

// Known answers of Philox4x32-10 from the Random123 distribution.
TEST(Rng, PhiloxKnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (std::array<std::uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST(Rng, SameSeedSameDrawsOtherStreamOtherDraws) {
  Rng a(7);
  Rng b(7);
  Rng c(7, 1);
  int same = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::uint32_t x = a.next_u32();
    EXPECT_EQ(x, b.next_u32());
    same += x == c.next_u32() ? 1 : 0;
  }
  EXPECT_LT(same, 3);
}

TEST(Rng, AllBitsOfSeedAndStreamMatter) {
  const auto first = [](std::uint64_t seed, std::uint64_t stream) {
    return Rng(seed, stream).next_u32();
  };
  for (int bit = 0; bit < 64; ++bit) {
    EXPECT_NE(first(std::uint64_t{1} << bit, 0), first(0, 0)) << bit;
    EXPECT_NE(first(0, std::uint64_t{1} << bit), first(0, 0)) << bit;
  }
}

TEST(Rng, MomentsAndRanges) {
  Rng rng(42);
  double mean = 0.0;
  double square = 0.0;
  double uniform_mean = 0.0;
  std::array<int, 5> counts{};
  constexpr int kDraws = 100000;
  for (int i = 0; i < kDraws; ++i) {
    const double x = rng.normal();
    mean += x / kDraws;
    square += x * x / kDraws;
    const double u = rng.uniform();
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    uniform_mean += u / kDraws;
    const std::int64_t n = rng.integer(-2, 2);
    ASSERT_GE(n, -2);
    ASSERT_LE(n, 2);
    ++counts[static_cast<std::size_t>(n + 2)];
  }
  EXPECT_NEAR(mean, 0.0, 0.02);
  EXPECT_NEAR(square, 1.0, 0.03);
  EXPECT_NEAR(uniform_mean, 0.5, 0.01);
  for (const int count : counts) EXPECT_NEAR(count, kDraws / 5, kDraws / 100);
}

TEST(Status, CarriesAMessageAndThrowsOnRequest) {
  const Status fine;
  EXPECT_TRUE(fine.ok());
  EXPECT_NO_THROW(fine.throw_if_error());
  const Status bad =
      Status::format(StatusCode::kOutOfRange, "[rope] position must be < %d but got %d", 8, 9);
  EXPECT_FALSE(bad.ok());
  EXPECT_STREQ(bad.message(), "[rope] position must be < 8 but got 9");
  EXPECT_THROW(bad.throw_if_error(), Error);
}

TEST(Status, LongMessagesAreCutNotOverrun) {
  const std::string text(1000, 'x');
  const Status status(StatusCode::kInvalidArgument, text.c_str());
  EXPECT_EQ(std::string(status.message()), std::string(199, 'x'));
}

}  // namespace
}  // namespace posenc
