#include "draw/ticks.h"

#include <gtest/gtest.h>

#include <random>

namespace posenc::draw {
namespace {

std::vector<std::string> texts(const std::vector<Tick>& ticks) {
  std::vector<std::string> out;
  for (const Tick& t : ticks) out.push_back(t.text);
  return out;
}
using Texts = std::vector<std::string>;

TEST(Ticks, StandAtRoundNumbers) {
  EXPECT_EQ(texts(ticks({}, {0, 100}, 6)), (Texts{"0", "20", "40", "60", "80", "100"}));
  EXPECT_EQ(texts(ticks({}, {-0.3, 0.31}, 4)), (Texts{"-0.2", "0", "0.2"}));
  EXPECT_EQ(texts(ticks({.log = true}, {1, 1e6}, 4)), (Texts{"1", "100", "10000", "10⁶"}));
  EXPECT_EQ(texts(ticks({.log = true, .base2 = true}, {1, 16}, 8)),
            (Texts{"1", "2", "4", "8", "16"}));
}

TEST(Ticks, ShortLogAxesHavePartsOfPowers) {
  EXPECT_EQ(texts(ticks({.log = true}, {1, 100}, 8)),
            (Texts{"1", "2", "5", "10", "20", "50", "100"}));
  EXPECT_EQ(texts(ticks({.log = true}, {3, 80}, 8)), (Texts{"5", "10", "20", "50"}));
  EXPECT_EQ(texts(ticks({.log = true}, {1, 100}, 4)), (Texts{"1", "10", "100"}));
}

TEST(Ticks, EndsOfBarsHaveThreeDigits) {
  EXPECT_EQ(rounded_text(-63.47, 64), "-63.5");
  EXPECT_EQ(rounded_text(12345.6, 20000), "12300");
  EXPECT_EQ(rounded_text(-1e-17, 1), "0");
}

TEST(Ticks, WordsAreThinnedOutEvenly) {
  Axis axis;
  for (int i = 0; i < 10; ++i) axis.words.push_back(std::string(1, static_cast<char>('a' + i)));
  EXPECT_EQ(texts(ticks(axis, {-0.5, 9.5}, 10)).size(), 10U);
  EXPECT_EQ(texts(ticks(axis, {-0.5, 9.5}, 4)), (Texts{"a", "d", "g", "j"}));
}

TEST(Ticks, StayInsideAndAreNeverTooMany) {
  std::mt19937_64 rng(7);
  std::uniform_real_distribution<double> exponent(-8, 8);
  std::uniform_real_distribution<double> place(-1, 1);
  for (int trial = 0; trial < 2000; ++trial) {
    const double span = std::pow(10.0, exponent(rng));
    const Range range{place(rng) * span * 3, 0};
    const Range whole{range.low, range.low + span};
    const int most = 2 + trial % 9;
    const auto found = ticks({}, whole, most);
    EXPECT_LE(found.size(), static_cast<std::size_t>(most) + 1);
    for (const Tick& t : found) {
      EXPECT_GE(t.at, whole.low - span * 1e-6);
      EXPECT_LE(t.at, whole.high + span * 1e-6);
    }
  }
}

TEST(Ticks, NumbersReadAsPeopleWriteThem) {
  EXPECT_EQ(tick_text(0.1 + 0.2), "0.3");
  EXPECT_EQ(tick_text(2048), "2048");
  EXPECT_EQ(tick_text(131072), "131072");
  EXPECT_EQ(tick_text(1e-5), "10⁻⁵");
  EXPECT_EQ(tick_text(2.5e-7), "2.5e-07");
}

}  // namespace
}  // namespace posenc::draw
