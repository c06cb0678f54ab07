// The encodings of site 1.
#include <gtest/gtest.h>

#include <cmath>

#include "posenc/core/error.h"
#include "posenc/encodings/learned.h"
#include "posenc/encodings/sinusoidal.h"

namespace posenc {
namespace {

std::vector<double> at(const Sinusoidal& config, std::int64_t position, std::size_t dim) {
  std::vector<double> out(dim, 99.0);
  embedding(config, position, out);
  return out;
}

TEST(Sinusoidal, FollowsThePaper) {
  const auto e = at(Sinusoidal{}, 7, 8);
  for (int i = 0; i < 4; ++i) {
    const double angle = 7.0 / std::pow(1e4, 2.0 * i / 8.0);
    EXPECT_NEAR(e[static_cast<std::size_t>(2 * i)], std::sin(angle), 1e-14);
    EXPECT_NEAR(e[static_cast<std::size_t>(2 * i + 1)], std::cos(angle), 1e-14);
  }
}

TEST(Sinusoidal, ConcatIsAPermutationAndTensor2TensorEndsAtTheta) {
  const auto a = at(Sinusoidal{}, 11, 6);
  const auto b = at(Sinusoidal{.layout = Sinusoidal::Layout::kConcat}, 11, 6);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(a[2 * i], b[i]);
    EXPECT_EQ(a[2 * i + 1], b[i + 3]);
  }
  const Sinusoidal t2t{.spacing = Sinusoidal::Spacing::kTensor2Tensor};
  EXPECT_NEAR(sinusoidal_frequencies(t2t, 8).back(), 1e-4, 1e-18);
}

TEST(Sinusoidal, OddDimensionsAreWrittenWhole) {
  const auto e = at(Sinusoidal{}, 3, 5);
  EXPECT_NEAR(e[4], std::sin(3.0 / std::pow(1e4, 4.0 / 5.0)), 1e-15);
  const auto c = at(Sinusoidal{.layout = Sinusoidal::Layout::kConcat}, 3, 5);
  EXPECT_EQ(c[4], 0.0);
  EXPECT_NEAR(at(Sinusoidal{}, 3, 1)[0], std::sin(3.0), 1e-15);
}

TEST(Sinusoidal, AnyLengthAndTooSmallAWidthForTensor2Tensor) {
  for (const double x : at(Sinusoidal{}, std::int64_t{1} << 40, 16)) EXPECT_LE(std::abs(x), 1.0);
  const Sinusoidal t2t{.spacing = Sinusoidal::Spacing::kTensor2Tensor};
  EXPECT_THROW(at(t2t, 1, 3), Error);
  EXPECT_THROW(at(Sinusoidal{}, 1, 0), Error);
}

TEST(Learned, ReadsItsRowAndRefusesPositionsPastTheTable) {
  const Learned learned{.max_positions = 4};
  const Parameters weight = {{0, 1, 2, 3, 4, 5, 6, 7}};
  const auto row = embedding(learned, weight, 2, 2);
  EXPECT_EQ(std::vector<double>(row.begin(), row.end()), (std::vector<double>{4, 5}));
  for (const std::int64_t position : {std::int64_t{4}, std::int64_t{-1}, std::int64_t{1} << 60}) {
    try {
      (void)embedding(learned, weight, position, 2);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kOutOfRange);
      EXPECT_EQ(error.value(), std::to_string(position));
    }
  }
}

}  // namespace
}  // namespace posenc
