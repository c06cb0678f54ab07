// The plan's memory of its Toeplitz tables: the right values, made as seldom as can be.
#include "kernels/toeplitz_tables.h"

#include <gtest/gtest.h>

namespace posenc {
namespace {

constexpr std::int64_t kHeads = 2;
constexpr std::int64_t kSlack = 64;

DistanceRange range_of(std::int64_t length, bool causal) {
  return {.before = length, .places = length, .lowest_seen = causal ? 0 : -length, .slack = kSlack};
}

class ToeplitzTablesTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::shared_ptr<const ToeplitzTables> get(const DistanceRange& range) const {
    return cache_->get(spec_, {0}, kHeads, parameters_, range);
  }

  // Every distance that the range lets be seen has its bias.
  void expect_values(const ToeplitzTables& tables, const DistanceRange& range) const {
    for (std::int64_t head = 0; head < kHeads; ++head) {
      const double slope = parameters_[0][0][static_cast<std::size_t>(head)];
      for (std::int64_t d = range.lowest_seen; d < range.places; ++d) {
        ASSERT_FLOAT_EQ(tables.at(head)[d],
                        static_cast<float>(-slope * static_cast<double>(std::abs(d))))
            << d;
      }
    }
  }

  Spec spec_ = parse_spec("alibi(bidirectional=true)");
  std::vector<Parameters> parameters_ = {{{0.5, 0.25}}};
  std::unique_ptr<ToeplitzCache> cache_ = std::make_unique<ToeplitzCache>();
};

TEST_F(ToeplitzTablesTest, GrowingSequencesSeldomNeedNewOnes) {
  for (const bool causal : {true, false}) {
    cache_ = std::make_unique<ToeplitzCache>();
    int made = 0;
    std::shared_ptr<const ToeplitzTables> last;
    for (std::int64_t length = 1; length <= 300; ++length) {
      const auto tables = get(range_of(length, causal));
      expect_values(*tables, range_of(length, causal));
      if (tables != last) ++made;
      last = tables;
    }
    EXPECT_LE(made, 10) << (causal ? "causal" : "everything is seen");
  }
}

TEST_F(ToeplitzTablesTest, CallsThatTakeTurnsShareOne) {
  const DistanceRange long_causal = range_of(200, true);
  const DistanceRange short_open = range_of(50, false);
  const auto narrow = get(long_causal);
  const auto both = get(short_open);
  EXPECT_NE(both, narrow);
  expect_values(*both, long_causal);
  expect_values(*both, short_open);
  EXPECT_EQ(get(long_causal), both);
  EXPECT_EQ(get(short_open), both);
}

TEST_F(ToeplitzTablesTest, OneMoreDistanceNeedsNewOnes) {
  const DistanceRange first = range_of(20, true);
  DistanceRange further = first;
  further.places = 21;
  const auto tables = get(first);
  EXPECT_EQ(get(first), tables);
  const auto grown = get(further);
  EXPECT_NE(grown, tables);
  expect_values(*grown, further);
}

TEST_F(ToeplitzTablesTest, OtherParametersAreNoticed) {
  const auto before = get(range_of(20, true));
  parameters_[0][0][1] = 0.75;
  const auto after = get(range_of(20, true));
  EXPECT_NE(before, after);
  expect_values(*after, range_of(20, true));
}

}  // namespace
}  // namespace posenc
