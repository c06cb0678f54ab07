#include "runs/attention_maps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "runs/attention_case.h"
#include "runs/run_case.h"

namespace posenc::runs {
namespace {

using testing::attention_record;
using testing::error_of;

TEST(AttentionMaps, DistancesAreInBucketsOfPowersOfTwo) {
  AttentionRecord record = attention_record(8, 1, {"none"});
  auto& weights = record.layers[0].weights;
  weights.assign(64, 0.0f);
  for (int i = 0; i < 8; ++i) weights[static_cast<std::size_t>(8 * i)] = 1.0f;  // all see token 0
  const DistanceHistogram histogram = attended_distance(record, 0, 0);
  EXPECT_EQ(histogram.buckets, (std::vector<std::string>{"0", "1", "2-3", "4-7"}));
  EXPECT_EQ(histogram.shares, (std::vector<double>{1.0 / 8, 1.0 / 8, 2.0 / 8, 4.0 / 8}));
  EXPECT_DOUBLE_EQ(histogram.mean, 3.5);
}

TEST(AttentionMaps, UniformAttentionIsKnown) {
  AttentionExample example;
  example.length = 3;  // rows: 1; 1/2 1/2; 1/3 1/3 1/3
  const DistanceHistogram causal = uniform_distance(example);
  EXPECT_EQ(causal.buckets, (std::vector<std::string>{"0", "1", "2"}));
  EXPECT_NEAR(causal.shares[0], (1.0 + 1.0 / 2 + 1.0 / 3) / 3, 1e-15);
  EXPECT_NEAR(causal.shares[2], (1.0 / 3) / 3, 1e-15);
  example.window = 0;
  EXPECT_DOUBLE_EQ(uniform_distance(example).shares[0], 1.0);
  example.window = -1;
  example.causal = false;
  EXPECT_NEAR(uniform_distance(example).shares[2], 2.0 / 9, 1e-15);
}

TEST(AttentionMaps, TheInstructionsShareIsThatOfTheQueriesAfterIt) {
  AttentionRecord record = attention_record(4, 1, {"none"});  // the instruction is token 1
  record.layers[0].weights = {1, 0, 0, 0, 0, 1, 0, 0, 0.5f, 0.25f, 0.25f, 0, 0, 0.75f, 0.25f, 0};
  EXPECT_DOUBLE_EQ(*instruction_share(record, 0, 0), 0.5);
  record.example.instruction_begin = 3;
  record.example.instruction_end = 4;
  EXPECT_FALSE(instruction_share(record, 0, 0));
  record.example.instruction_begin = 4;
  EXPECT_FALSE(instruction_share(record, 0, 0));
}

TEST(AttentionMaps, OpenGatesAreCountedAndTheOthersAddedUp) {
  AttentionRecord record = attention_record(4, 2, {"none", "cope(npos_max=4)"});
  auto& gates = record.layers[1].gates;
  gates.assign(32, 0.9f);
  const std::array<float, 4> last = {0.75f, 0.25f, 0.5f, 1.0f};
  std::copy(last.begin(), last.end(), gates.begin() + 28);  // head 1, query 3
  EXPECT_FALSE(last_gates(record, 0, 1));
  ASSERT_TRUE(last_gates(record, 1, 1));
  EXPECT_EQ(last_gates(record, 1, 1)->open, 2);
  EXPECT_DOUBLE_EQ(last_gates(record, 1, 1)->leak, 0.75);
  record.example.window = 1;
  EXPECT_EQ(last_gates(record, 1, 1)->open, 1) << "keys that the query does not see have no gate";
  EXPECT_DOUBLE_EQ(last_gates(record, 1, 1)->leak, 0.5);
}

TEST(AttentionMaps, ARecordDoesNotDifferFromItself) {
  const AttentionRecord record = attention_record(8, 2, {"rope", "alibi"});
  for (const Divergence& d : divergences(record, record)) {
    EXPECT_EQ(d.total_variation, 0.0);
    EXPECT_EQ(d.jensen_shannon, 0.0);
  }
  for (const float x : head_difference(record, record, 1, 1).values) EXPECT_EQ(x, 0.0f);
}

TEST(AttentionMaps, DivergencesOfTwoHeadsAreTheFormulas) {
  AttentionRecord a = attention_record(2, 1, {"rope"});
  AttentionRecord b = a;
  a.layers[0].weights = {1, 0, 1, 0};
  b.layers[0].weights = {1, 0, 0, 1};  // the second query looks elsewhere
  const auto apart = divergences(a, b);
  ASSERT_EQ(apart.size(), 1U);
  EXPECT_DOUBLE_EQ(apart[0].total_variation, 0.5);
  EXPECT_DOUBLE_EQ(apart[0].jensen_shannon, 0.5);
  EXPECT_EQ(head_difference(a, b, 0, 0).values, (std::vector<float>{0, 0, -1, 1}));
  b.layers[0].weights = {1, 0, 0.5f, 0.5f};
  const auto half = divergences(a, b);
  EXPECT_DOUBLE_EQ(half[0].total_variation, 0.25);
  // KL of (1, 0) and (1/2, 1/2) to their mean (3/4, 1/4), averaged, over two queries.
  const double js = 0.5 * std::log2(4.0 / 3) + 0.5 * (0.5 * std::log2(2.0 / 3) + 0.5);
  EXPECT_NEAR(half[0].jensen_shannon, js / 2, 1e-12);
}

TEST(AttentionMaps, OtherExamplesAreRefusedWithTheReason) {
  const AttentionRecord a = attention_record(8, 2, {"rope"});
  const auto why = [&](const AttentionRecord& b) {
    return error_of([&] { (void)divergences(a, b, {"runs/a", "runs/b"}); });
  };
  EXPECT_NE(why(attention_record(9, 2, {"rope"})).find("runs/a has 8 tokens and runs/b has 9"),
            std::string::npos);
  EXPECT_NE(why(attention_record(8, 3, {"rope"})).find("1 layers of 2 heads"), std::string::npos);
  AttentionRecord b = a;
  b.example.tokens[5] = "x";
  EXPECT_NE(why(b).find("token 5 is 'F' in runs/a and 'x' in runs/b"), std::string::npos) << why(b);
  EXPECT_EQ(why(a), "");
}

TEST(AttentionMaps, LayersAndHeadsThatAreNotThereAreNamed) {
  const AttentionRecord record = attention_record(4, 2, {"rope", "cope"});
  EXPECT_NE(error_of([&] { (void)head_map(record, 2, 0); }).find("layer"), std::string::npos);
  EXPECT_NE(error_of([&] { (void)head_map(record, 0, 2); }).find("head"), std::string::npos);
  EXPECT_NE(error_of([&] { (void)head_map(record, 0, 1, MapKind::kGates); }).find("rope"),
            std::string::npos);
  EXPECT_EQ(head_map(record, 1, 1, MapKind::kGates).at(3, 0), 0.25f);
  EXPECT_EQ(head_map(record, 1, 1, MapKind::kPositions).at(3, 0), 1.0f);
}

}  // namespace
}  // namespace posenc::runs
