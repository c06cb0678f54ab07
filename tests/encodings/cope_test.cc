#include "posenc/encodings/cope.h"

#include <gtest/gtest.h>

#include <cmath>

namespace posenc {
namespace {

std::vector<double> random_row(Rng& rng, std::size_t size, double scale = 1.0) {
  std::vector<double> row(size);
  for (double& x : row) x = scale * rng.normal();
  return row;
}

TEST(Cope, AllGatesOpenCountsKeysBothEndsIncluded) {
  const Cope cope{.npos_max = 1000};
  const std::vector<double> wide_open(20, 100.0);
  const CopeRow row = cope_positions(cope, wide_open, std::vector<bool>(20, true));
  for (std::size_t j = 0; j < 20; ++j)
    EXPECT_DOUBLE_EQ(row.position[j], 20.0 - static_cast<double>(j));
}

// Shaw et al. 2018: the distance alone, whatever the gates' logits are.
TEST(Cope, OpenGatesCountEveryVisibleKey) {
  const Cope cope{.npos_max = 5, .gate_source = Cope::GateSource::kOpen};
  std::vector<bool> visible(8, true);
  visible[7] = visible[3] = false;
  Rng rng(4);
  const std::vector<double> logits = random_row(rng, 8, 10.0);
  const CopeRow row = cope_positions(cope, logits, visible);
  EXPECT_EQ(row.position, (std::vector<double>{4, 4, 4, 3, 3, 2, 1, 0}));
  EXPECT_EQ(row.gate[3], 0.0);
  std::vector<double> dtable(5, 0.0);
  std::vector<double> dgate(8, 0.0);
  cope_backward(cope, row, random_row(rng, 5), random_row(rng, 8), dtable, dgate);
  EXPECT_EQ(dgate, std::vector<double>(8, 0.0));
  EXPECT_THROW(validate(Cope{.gates_see_bias = true, .gate_source = Cope::GateSource::kOpen},
                        {.head_dim = 8, .heads = 2}),
               Error);
}

TEST(Cope, MaskedKeysDoNotCount) {
  const Cope cope{.npos_max = 1000};
  std::vector<bool> visible(10, true);
  visible[9] = visible[8] = visible[4] = false;
  const CopeRow row = cope_positions(cope, std::vector<double>(10, 0.0), visible);
  EXPECT_EQ(row.gate[9], 0.0);
  EXPECT_DOUBLE_EQ(row.position[8], 0.0);
  EXPECT_DOUBLE_EQ(row.position[7], 0.5);
  EXPECT_DOUBLE_EQ(row.position[4], row.position[5]);
  EXPECT_DOUBLE_EQ(row.position[0], 3.5);
}

// Between the last two entries too, and at the last one itself.
TEST(Cope, LogitsAreInterpolatedUpToTheLastEntry) {
  const Cope cope{.npos_max = 4};
  const std::vector<double> table = {0.0, 1.0, 4.0, 9.0};
  const CopeRow row{{0.5, 0.5, 0.5}, {3.0, 2.5, 0.25}, {true, false, false}};
  std::vector<double> logits(3);
  cope_logits(cope, row, table, logits);
  EXPECT_EQ(logits, (std::vector<double>{9.0, 6.5, 0.25}));
  std::vector<double> dtable(4, 0.0);
  std::vector<double> dgate(3, 0.0);
  cope_backward(cope, row, table, std::vector<double>{0.0, 1.0, 0.0}, dtable, dgate);
  EXPECT_EQ(dtable, (std::vector<double>{0.0, 0.0, 0.5, 0.5}));
}

TEST(Cope, PositionsStopAtTheLastEntry) {
  const Cope cope{.npos_max = 4};
  const CopeRow row =
      cope_positions(cope, std::vector<double>(20, 0.0), std::vector<bool>(20, true));
  EXPECT_DOUBLE_EQ(row.position[0], 3.0);
  EXPECT_TRUE(row.clamped[0]);
  EXPECT_TRUE(row.clamped[14]) << "six gates of one half reach 3 exactly";
  EXPECT_FALSE(row.clamped[15]);
  const std::vector<double> z = {1.0, 10.0, 100.0, 1000.0};
  std::vector<double> logits(20);
  cope_logits(cope, row, z, logits);
  EXPECT_DOUBLE_EQ(logits[0], 1000.0);
  EXPECT_DOUBLE_EQ(logits[19], 5.5);  // position 1/2
  EXPECT_DOUBLE_EQ(logits[18], 10.0);
}

TEST(Cope, ExtremeGatesStayFinite) {
  const Cope cope;
  const std::vector<double> extreme = {-1e4, 1e4, -745.0, 745.0, 0.0};
  const CopeRow row = cope_positions(cope, extreme, std::vector<bool>(5, true));
  for (std::size_t j = 0; j < 5; ++j) EXPECT_TRUE(std::isfinite(row.position[j]));
  EXPECT_DOUBLE_EQ(row.position[0], 2.5);
}

// A diverged model asks for NaN positions, which are no place in a table.
TEST(Cope, NanGatesGiveNanLogits) {
  const Cope cope{.npos_max = 4};
  const std::vector<double> gates = {0.0, NAN, 0.0};
  const CopeRow row = cope_positions(cope, gates, std::vector<bool>(3, true));
  const std::vector<double> table = {1.0, 2.0, 3.0, 4.0};
  std::vector<double> logits(3);
  cope_logits(cope, row, table, logits);
  EXPECT_TRUE(std::isnan(logits[0]));
  EXPECT_TRUE(std::isnan(logits[1]));
  EXPECT_DOUBLE_EQ(logits[2], 1.5);
  std::vector<double> dtable(4), dgates(3);
  cope_backward(cope, row, table, logits, dtable, dgates);
  EXPECT_TRUE(std::isnan(dtable[0]));
}

// Against central differences, on both variants; points within a step of a kink are left out, and
// there must be few of them.
TEST(Cope, BackwardMatchesFiniteDifferences) {
  Rng rng(1);
  int compared = 0;
  int left_out = 0;
  for (const Cope& cope : {Cope{.npos_max = 6}, Cope{.npos_max = 40},
                           Cope{.npos_max = 6, .variant = Cope::Variant::kAlibi}}) {
    const std::size_t entries =
        cope.variant == Cope::Variant::kAlibi ? 1 : static_cast<std::size_t>(cope.npos_max);
    for (int trial = 0; trial < 20; ++trial) {
      std::vector<double> gates = random_row(rng, 24);
      std::vector<double> table = random_row(rng, entries);
      const std::vector<double> weight = random_row(rng, 24);
      std::vector<bool> visible(24, true);
      visible[5] = visible[23] = false;
      const auto loss = [&] {
        const CopeRow row = cope_positions(cope, gates, visible);
        std::vector<double> logits(24);
        cope_logits(cope, row, table, logits);
        double sum = 0.0;
        for (std::size_t j = 0; j < 24; ++j) sum += weight[j] * logits[j];
        return sum;
      };
      const CopeRow row = cope_positions(cope, gates, visible);
      std::vector<double> dtable(entries, 0.0);
      std::vector<double> dgates(24, 0.0);
      cope_backward(cope, row, table, weight, dtable, dgates);
      const auto check = [&](double& x, double analytic) {
        constexpr double kStep = 1e-6;
        const double kept = x;
        const double here = loss();
        x = kept + kStep;
        const double up = (loss() - here) / kStep;
        x = kept - kStep;
        const double down = (here - loss()) / kStep;
        x = kept;
        if (std::abs(up - down) > 1e-4) {
          ++left_out;
          return;
        }
        ++compared;
        EXPECT_NEAR(analytic, (up + down) / 2.0, 1e-7 * std::max(1.0, std::abs(analytic)) + 1e-8);
      };
      for (std::size_t j = 0; j < 24; ++j) check(gates[j], dgates[j]);
      for (std::size_t p = 0; p < entries; ++p) check(table[p], dtable[p]);
    }
  }
  EXPECT_GT(compared, 1500);
  EXPECT_LT(left_out, 20);
}

TEST(Cope, ParametersFollowTheVariant) {
  const ModelShape shape{.head_dim = 16, .heads = 4};
  const auto table = parameters(Cope{.npos_max = 32}, shape);
  ASSERT_EQ(table.size(), 1u);
  EXPECT_EQ(table[0].name, "pos_emb");
  EXPECT_EQ(table[0].shape, (std::vector<std::int64_t>{16, 32}));
  Rng rng(0);
  const Parameters start = initial_parameters(table, rng);
  for (const double x : start[0]) EXPECT_EQ(x, 0.0);
  const auto slopes = parameters(Cope{.variant = Cope::Variant::kAlibi}, shape);
  EXPECT_EQ(slopes[0].name, "m");
  EXPECT_EQ(initial_parameters(slopes, rng)[0][0], -0.25);
}

}  // namespace
}  // namespace posenc
