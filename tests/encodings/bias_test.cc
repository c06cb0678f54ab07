// The encodings of site 3: formulas, claims (Toeplitz, falling with distance) and gradients.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "posenc/core/error.h"
#include "posenc/encodings/encoding.h"

namespace posenc {
namespace {

constexpr ModelShape kShape{.head_dim = 8, .heads = 3};

template <BiasEncoding E>
struct Sample {
  E config;
  Parameters parameters;
};

template <BiasEncoding E>
Sample<E> sample(E config, std::uint64_t seed) {
  Rng rng(seed);
  Sample<E> result{config, initial_parameters(parameters(config, kShape), rng)};
  for (auto& values : result.parameters) {
    for (double& x : values) x += 0.05 * rng.uniform();  // away from zeros and from clamps
  }
  return result;
}

// Central differences over every entry of every parameter, at a spread of (head, i, j).
template <BiasEncoding E>
void check_gradient(const E& config, std::uint64_t seed) {
  Sample<E> s = sample(config, seed);
  Rng rng(seed + 1);
  for (int trial = 0; trial < 40; ++trial) {
    const std::int64_t head = rng.integer(0, kShape.heads - 1);
    const std::int64_t i = rng.integer(0, 900);
    const std::int64_t j = rng.integer(0, 900);
    Parameters gradient = zero_parameters(parameters(config, kShape));
    add_bias_gradient(config, s.parameters, head, i, j, 2.0, gradient);
    for (std::size_t p = 0; p < s.parameters.size(); ++p) {
      for (std::size_t n = 0; n < s.parameters[p].size(); ++n) {
        const double kept = s.parameters[p][n];
        const double step = 1e-6 * std::max(1.0, std::abs(kept));
        s.parameters[p][n] = kept + step;
        const double up = bias(config, s.parameters, head, i, j);
        s.parameters[p][n] = kept - step;
        const double down = bias(config, s.parameters, head, i, j);
        s.parameters[p][n] = kept;
        const double numeric = 2.0 * (up - down) / (2.0 * step);
        ASSERT_NEAR(gradient[p][n], numeric, 1e-6 * std::max(1.0, std::abs(numeric)))
            << E::kTraits.name << " parameter " << p << "[" << n << "] at " << i << ", " << j;
      }
    }
  }
}

// Calls `check` with the defaults of each bias.
template <class Check, class... Configs>
void for_each_bias(const Check& check, const std::variant<Configs...>* /*tag*/) {
  const auto one = [&]<class E>(const E& config) {
    if constexpr (BiasEncoding<E>) check(config);
  };
  (one(Configs{}), ...);
}
template <class Check>
void for_each_bias(const Check& check) {
  for_each_bias(check, static_cast<const Encoding*>(nullptr));
}

TEST(Bias, GradientsMatchFiniteDifferences) {
  for (std::uint64_t seed = 1; seed < 7; ++seed) {
    for_each_bias([&](const auto& config) { check_gradient(config, seed); });
  }
  check_gradient(Alibi{.trainable = true, .bidirectional = true}, 2);
  check_gradient(T5{.bidirectional = true}, 4);
  check_gradient(Kerple{.kernel = Kerple::Kernel::kPower}, 6);
  check_gradient(Relative{.max_distance = 50, .init_std = 1.0}, 7);
  check_gradient(Relative{.max_distance = 50, .bidirectional = true, .init_std = 1.0}, 8);
}

template <BiasEncoding E>
bool depends_on_distance_alone(const E& config) {
  const Sample<E> s = sample(config, 20);
  Rng rng(21);
  for (int trial = 0; trial < 500; ++trial) {
    const std::int64_t head = rng.integer(0, kShape.heads - 1);
    const std::int64_t i = rng.integer(0, 3000);
    const std::int64_t j = rng.integer(0, 3000);
    const std::int64_t shift = rng.integer(0, 3000);
    if (bias(config, s.parameters, head, i, j) !=
        bias(config, s.parameters, head, i + shift, j + shift)) {
      return false;
    }
  }
  return true;
}

TEST(Bias, ToeplitzExactlyWhereClaimed) {
  const auto check = [](const auto& config) {
    EXPECT_EQ(depends_on_distance_alone(config), DistanceBias<std::decay_t<decltype(config)>>)
        << config.kTraits.name;
  };
  for_each_bias(check);
  check(Alibi{.bidirectional = true});
  check(T5{.bidirectional = true});
  check(Kerple{.kernel = Kerple::Kernel::kPower});
  check(Relative{.init_std = 1.0});
}

TEST(Bias, FireIsToeplitzBelowItsThreshold) {
  const Fire fire{.init_threshold = 1000.0};
  const Sample<Fire> s = sample(fire, 22);
  for (std::int64_t i = 1; i < 500; ++i) {
    EXPECT_EQ(bias(fire, s.parameters, 0, i, i - 1), bias(fire, s.parameters, 0, 2 * i, 2 * i - 1));
  }
}

TEST(Alibi, FallsWithDistanceAndStopsAtTheFuture) {
  const Sample<Alibi> causal = sample(Alibi{}, 23);
  const Sample<Alibi> both = sample(Alibi{.bidirectional = true}, 23);
  for (std::int64_t h = 0; h < kShape.heads; ++h) {
    for (std::int64_t j = 1; j <= 100; ++j) {
      EXPECT_GT(bias(causal.config, causal.parameters, h, 100, j),
                bias(causal.config, causal.parameters, h, 100, j - 1));
      EXPECT_EQ(bias(causal.config, causal.parameters, h, 100, 100 + j), 0.0);
      EXPECT_EQ(bias(both.config, both.parameters, h, 100, 100 + j),
                bias(both.config, both.parameters, h, 100, 100 - j));
    }
  }
}

TEST(Alibi, SlopeConventionsAgreeOnPowersOfTwo) {
  using Slopes = Alibi::Slopes;
  for (const std::int64_t heads : {1, 2, 4, 8, 16, 32, 64}) {
    const auto standard = alibi_slopes(Alibi{}, heads);
    EXPECT_EQ(standard, alibi_slopes(Alibi{.slopes = Slopes::kMpt}, heads));
    EXPECT_EQ(standard, alibi_slopes(Alibi{.slopes = Slopes::kGeometric}, heads));
    EXPECT_DOUBLE_EQ(standard.back(), std::exp2(-8.0));
  }
  EXPECT_EQ(alibi_slopes(Alibi{}, 3), (std::vector<double>{0.0625, 0.00390625, 0.25}));
  EXPECT_EQ(alibi_slopes(Alibi{.slopes = Slopes::kMpt}, 3),
            (std::vector<double>{0.0625, 0.00390625, 0.25}));
  EXPECT_EQ(alibi_slopes(Alibi{.slopes = Slopes::kMpt}, 6),
            (std::vector<double>{0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125}));
  EXPECT_DOUBLE_EQ(alibi_slopes(Alibi{.slopes = Slopes::kGeometric}, 3)[0], std::exp2(-8.0 / 3.0));
  EXPECT_DOUBLE_EQ(alibi_slopes(Alibi{.bias_max = 4.0}, 2)[1], std::exp2(-4.0));
}

// The float32 recipes of Hugging Face round in different places, by a few units of the last digit.
TEST(Alibi, HfPrecisionIsNearTheExactSlopesOfEveryConvention) {
  using Slopes = Alibi::Slopes;
  for (const Slopes slopes : {Slopes::kStandard, Slopes::kMpt, Slopes::kGeometric}) {
    for (const std::int64_t heads : {8, 12, 20}) {
      const auto exact = alibi_slopes(Alibi{.slopes = slopes}, heads);
      const auto hf = alibi_slopes(Alibi{.slopes = slopes, .precision = Precision::kHf}, heads);
      ASSERT_EQ(hf.size(), exact.size());
      for (std::size_t h = 0; h < hf.size(); ++h) EXPECT_NEAR(hf[h] / exact[h], 1.0, 1e-6) << h;
    }
  }
}

// The table is [buckets, heads], and the bucket is that of key minus query.
TEST(T5, ReadsTheBucketOfTheKeyFromTheQuery) {
  const T5 causal{.num_buckets = 8, .max_distance = 16};
  const T5 both{.num_buckets = 8, .max_distance = 16, .bidirectional = true};
  Parameters table = {std::vector<double>(16)};
  for (std::size_t n = 0; n < 16; ++n) table[0][n] = static_cast<double>(n);
  EXPECT_EQ(bias(causal, table, 0, 9, 6), 2.0 * 3) << "bucket 3";
  EXPECT_EQ(bias(causal, table, 1, 9, 6), 2.0 * 3 + 1);
  EXPECT_EQ(bias(causal, table, 1, 6, 9), 1.0) << "the future is in bucket 0";
  EXPECT_EQ(bias(both, table, 0, 9, 8), 2.0 * 1);
  EXPECT_EQ(bias(both, table, 0, 8, 9), 2.0 * 5) << "the future has the second half";
}

TEST(T5, BucketsGrowWithDistanceAndFillTheTable) {
  for (const bool bidirectional : {false, true}) {
    const T5 t5{.bidirectional = bidirectional};
    std::int64_t last = -1;
    for (std::int64_t d = 0; d < 100000; d += 1 + d / 50) {
      const std::int64_t bucket = t5_bucket(t5, -d);
      EXPECT_GE(bucket, last);
      last = bucket;
    }
    EXPECT_EQ(last, bidirectional ? 15 : 31);
    EXPECT_EQ(t5_bucket(t5, std::int64_t{1} << 62), bidirectional ? 31 : 0);
    EXPECT_EQ(t5_bucket(t5, std::numeric_limits<std::int64_t>::min()), last);
  }
}

TEST(Kerple, ClampsAsTheAuthorsDo) {
  const Kerple power{.kernel = Kerple::Kernel::kPower};
  const Parameters out_of_range = {{5.0, -1.0, 1.0}, {-1.0, 1.0, 1.0}};
  EXPECT_DOUBLE_EQ(bias(power, out_of_range, 0, 10, 7), -0.01 * 9.0);  // a to 0.01, p to 2
  Parameters gradient = {{0, 0, 0}, {0, 0, 0}};
  add_bias_gradient(power, out_of_range, 0, 10, 7, 1.0, gradient);
  EXPECT_EQ(gradient[0][0], 0.0);
  EXPECT_EQ(gradient[1][0], 0.0);
}

}  // namespace
}  // namespace posenc
