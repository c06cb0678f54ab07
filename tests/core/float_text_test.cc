#include "core/float_text.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string_view>

namespace posenc {
namespace {

// Numbers that people write, and the places where notations change.
std::vector<double> chosen_numbers() {
  std::vector<double> numbers = {
      0.0,    -0.0,    1.0,     0.1,    1.0 / 3.0, 10000.0, 500000.0,
      1e5,    123456., 1e16,    1e21,   1e22,      1e23,    1e-4,
      1.5e-4, 1e-5,    9.99e-5, 1e-300, 5e-324,    -2.5,    9007199254740993.0};
  numbers.push_back(std::numeric_limits<double>::max());
  numbers.push_back(std::numeric_limits<double>::min());
  for (int e = -30; e <= 30; ++e) {
    for (const double m : {1.0, 1.2, 9.87654321, -3.0}) numbers.push_back(m * std::pow(10.0, e));
  }
  return numbers;
}

std::vector<double> random_numbers(int count) {
  std::mt19937_64 rng(7);
  std::vector<double> numbers;
  for (int i = 0; i < count; ++i) {
    const auto any = std::bit_cast<double>(rng());
    if (std::isfinite(any)) numbers.push_back(any);
    numbers.push_back(static_cast<double>(rng() >> (rng() % 60)));
  }
  return numbers;
}

TEST(FloatText, TheSpeltOutFormsWriteAsTheStandardLibraryDoes) {
  for (const double x : chosen_numbers()) EXPECT_EQ(shortest_text_by_hand(x), shortest_text(x));
  for (const double x : random_numbers(20000)) {
    ASSERT_EQ(shortest_text_by_hand(x), shortest_text(x));
  }
}

void expect_same_reading(std::string_view text) {
  const char* first = text.data();
  const char* last = first + text.size();
  double by_library = -1.0;
  double by_hand = -1.0;
  const auto a = read_double(first, last, by_library);
  const auto b = read_double_by_hand(first, last, by_hand);
  EXPECT_EQ(a.ptr - first, b.ptr - first) << text;
  EXPECT_EQ(a.ec, b.ec) << text;
  EXPECT_EQ(std::bit_cast<std::uint64_t>(by_library), std::bit_cast<std::uint64_t>(by_hand))
      << text;
}

TEST(FloatText, TheSpeltOutFormsReadAsTheStandardLibraryDoes) {
  for (const std::string_view text : {"1",
                                      "-1",
                                      "+1",
                                      " 1",
                                      "",
                                      "x",
                                      ".5",
                                      "5.",
                                      ".",
                                      "1e5",
                                      "1e+5",
                                      "1e",
                                      "1e+",
                                      "1+2",
                                      "0x10",
                                      "1x",
                                      "1e400",
                                      "-1e400",
                                      "1e-400",
                                      "5e-324",
                                      "2.5e-324",
                                      "4.9e-310",
                                      "inf",
                                      "-inf",
                                      "1,5",
                                      "--1",
                                      "1.5.2",
                                      "1_000",
                                      "123456789012345678901234567890"}) {
    expect_same_reading(text);
  }
  for (const double x : random_numbers(5000)) expect_same_reading(shortest_text(x));
}

}  // namespace
}  // namespace posenc
