#include "report/attention_figures.h"

#include <gtest/gtest.h>

#include <cmath>

#include "draw/svg.h"
#include "posenc/core/error.h"
#include "runs/attention_case.h"

namespace posenc::report {
namespace {

using testing::attention_record;

const draw::Panel& panel_named(const draw::Figure& figure, const std::string& part) {
  for (const draw::Panel& panel : figure.panels) {
    if (panel.title.find(part) != std::string::npos) return panel;
  }
  throw std::runtime_error("no panel " + part);
}

TEST(AttentionFigures, TheOverviewHasAMapPerHeadAndDistancesPerLayer) {
  const auto record = attention_record(12, 3, {"rope", "rope + cope"});
  const draw::Figure figure = attention_overview(record, "mine");
  EXPECT_EQ(figure.columns, 4);
  ASSERT_EQ(figure.panels.size(), 8U);
  EXPECT_NE(figure.title.find("mine (rope, rope + cope)"), std::string::npos) << figure.title;
  EXPECT_NE(figure.caption.find("0 of 1 answers right"), std::string::npos) << figure.caption;
  const draw::Heatmap& map = *panel_named(figure, "layer 1, head 2").map;
  EXPECT_TRUE(std::isnan(map.values[1]));  // what follows the first query
  EXPECT_EQ(map.values[5 * 12 + 3], runs::head_map(record, 1, 2).at(5, 3));
  EXPECT_EQ(figure.panels[3].curves.size(), 4U);  // uniform and three heads
  EXPECT_NO_THROW((void)draw::to_svg(figure));
}

TEST(AttentionFigures, SpikesOfLongSamplesAreSeen) {
  auto record = attention_record(300, 1, {"none"});
  auto& weights = record.layers[0].weights;
  for (float& w : weights) w *= 1e-3f;
  weights[200 * 300 + 7] = 0.9f;
  const draw::Figure figure = attention_overview(record, "mine");
  const draw::Heatmap& map = *figure.panels[0].map;
  EXPECT_EQ(map.rows, 64);
  EXPECT_EQ(std::count(map.values.begin(), map.values.end(), 0.9f), 1);
  EXPECT_EQ(*map.high, static_cast<double>(0.9f));
}

// The first queries have few keys, and their weights would leave the others in the dark.
TEST(AttentionFigures, TheScaleEndsAtTheLargestWeightPastTheFirstQuarter) {
  auto record = attention_record(20, 1, {"none"});
  const auto largest = runs::head_map(record, 0, 0);
  float expected = 0.0f;
  for (std::int64_t i = 5; i < 20; ++i) {
    for (std::int64_t j = 0; j <= i; ++j) expected = std::max(expected, largest.at(i, j));
  }
  ASSERT_LT(expected, 1.0f);
  EXPECT_EQ(*attention_overview(record, "mine").panels[0].map->high, static_cast<double>(expected));
}

TEST(AttentionFigures, HeadsInFullShowTokensAnswersAndTheInstruction) {
  const auto record = attention_record(12, 2, {"rope", "cope"});
  const draw::Figure figure = attention_heads(record, "mine", chosen_heads(record, {0, 1}, {1}));
  ASSERT_EQ(figure.panels.size(), 2U + 4U);
  const draw::Panel& panel = panel_named(figure, "layer 0, head 1: weights (rope)");
  EXPECT_EQ(panel.x.words, record.example.tokens);
  EXPECT_EQ(panel.y.words[0], "A");
  EXPECT_EQ(panel.y.words[11], "E → 5 ≠ 4");
  ASSERT_EQ(panel.rules.size(), 2U);
  EXPECT_EQ(panel.rules[0].at, 0.5);
  EXPECT_EQ(panel.rules[1].at, 1.5);
  EXPECT_EQ(panel_named(figure, "layer 1, head 1: gates").map->values[0], 0.25f);
  EXPECT_EQ(panel_named(figure, "layer 1, head 1: positions").map->values[3 * 12], 1.0f);
  EXPECT_NO_THROW((void)draw::to_svg(figure));
}

TEST(AttentionFigures, DifferencesAreTheSecondMinusTheFirst) {
  const auto a = attention_record(12, 2, {"rope", "rope"});
  const auto b = attention_record(12, 2, {"alibi", "alibi"}, 4);
  const draw::Figure overview = difference_overview(a, b, {"a", "b"});
  EXPECT_EQ(overview.panels.size(), 6U);
  const draw::Heatmap& map = *overview.panels[1].map;
  EXPECT_EQ(map.map, draw::ColorMap::kDiverging);
  EXPECT_EQ(*map.low, -*map.high);
  EXPECT_EQ(map.values[6 * 12 + 2],
            runs::head_map(b, 0, 1).at(6, 2) - runs::head_map(a, 0, 1).at(6, 2));
  EXPECT_NE(overview.panels[1].title.find("TV 0."), std::string::npos);
  const draw::Figure full = difference_heads(a, b, {"a", "b"}, {{1, 0}});
  EXPECT_EQ(full.panels.size(), 4U);
  EXPECT_NO_THROW((void)draw::to_svg(full));
  EXPECT_NO_THROW((void)draw::to_svg(overview));
  EXPECT_THROW((void)difference_overview(a, attention_record(13, 2, {"rope", "rope"}), {"a", "b"}),
               Error);
}

TEST(AttentionFigures, HeadsThatAreNotThereAreRefused) {
  const auto record = attention_record(12, 2, {"rope"});
  EXPECT_EQ(chosen_heads(record, {}, {}).size(), 2U);
  EXPECT_THROW((void)chosen_heads(record, {1}, {}), Error);
  EXPECT_THROW((void)chosen_heads(record, {}, {2}), Error);
}

}  // namespace
}  // namespace posenc::report
