#include "draw/figure.h"

#include <gtest/gtest.h>

#include <cmath>

#include "draw/pool.h"
#include "posenc/core/error.h"

namespace posenc::draw {
namespace {

Figure with(Panel panel) {
  Figure figure;
  panel.title = "p";
  figure.panels.push_back(std::move(panel));
  return figure;
}

std::string complaint(const Figure& figure) {
  try {
    validate(figure);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(Figure, RefusesWhatCannotBePainted) {
  Panel curve;
  curve.curves.push_back({.name = "c", .x = {1, 2}, .y = {1}});
  EXPECT_NE(complaint(with(curve)).find("curve 'c' must have as many y"), std::string::npos);
  Panel log;
  log.x.log = true;
  log.curves.push_back({.name = "c", .x = {0, 2}, .y = {1, 2}});
  EXPECT_NE(complaint(with(log)).find("x axis is logarithmic"), std::string::npos);
  Panel map;
  map.map = Heatmap{.rows = 2, .columns = 2, .values = {1, 2, 3}};
  EXPECT_NE(complaint(with(map)).find("3 for 2 x 2"), std::string::npos);
  Panel fine;
  fine.curves.push_back({.name = "c", .x = {1, 2}, .y = {NAN, 2}});
  EXPECT_EQ(complaint(with(fine)), "");
}

TEST(Figure, RangesHoldTheDataAndAreNeverEmpty) {
  Panel panel;
  panel.curves.push_back({.x = {3, 5}, .y = {-1, NAN}, .low = {-2, 0}, .high = {4, 1}});
  EXPECT_LE(y_range(panel).low, -2);
  EXPECT_GE(y_range(panel).high, 4);
  EXPECT_EQ(x_range(panel).low, 3);
  Panel flat;
  flat.curves.push_back({.x = {3}, .y = {7}});
  EXPECT_LT(x_range(flat).low, x_range(flat).high);
  EXPECT_LT(y_range(flat).low, y_range(flat).high);
  const Panel nothing;
  EXPECT_LT(x_range(nothing).low, x_range(nothing).high);
}

TEST(Figure, DivergingScalesAreEvenAboutZero) {
  Heatmap map{.rows = 1, .columns = 3, .values = {-1, NAN, 4}, .map = ColorMap::kDiverging};
  EXPECT_EQ(value_range(map).low, -4);
  EXPECT_EQ(value_range(map).high, 4);
  map.map = ColorMap::kSequential;
  EXPECT_EQ(value_range(map).low, -1);
}

TEST(Figure, ABarShowsTheValuesThatTheMapHas) {
  Heatmap map{.rows = 1, .columns = 3, .values = {-1, NAN, 4}, .map = ColorMap::kDiverging};
  EXPECT_EQ(shown_range(map).low, -1);
  EXPECT_EQ(shown_range(map).high, 4);
  map.low = -2;
  EXPECT_EQ(shown_range(map).low, -2);
  EXPECT_TRUE(has_masked(map));
  map.values = {0, 0, 0};
  EXPECT_FALSE(has_masked(map));
  EXPECT_LT(shown_range(map).low, shown_range(map).high);
}

// A single spike, wherever it is and whatever the size of the picture.
TEST(Pool, SpikesSurvive) {
  for (std::int64_t size = 5; size < 60; size += 7) {
    for (std::int64_t most = 1; most < size; most += 3) {
      Heatmap map{.rows = size, .columns = size + 2};
      map.values.assign(static_cast<std::size_t>(size * (size + 2)), 0.25F);
      const std::size_t spike = static_cast<std::size_t>(size * most * 31 % (size * (size + 2)));
      map.values[spike] = -9.0F;
      const Heatmap small = pooled(map, most, most);
      EXPECT_EQ(std::count(small.values.begin(), small.values.end(), -9.0F), 1);
      EXPECT_EQ(small.values.size(), static_cast<std::size_t>(most * most));
    }
  }
}

TEST(Pool, KeepsItsPlaceAndItsMask) {
  Heatmap map{.rows = 4, .columns = 4, .values = std::vector<float>(16, NAN)};
  map.values[0] = 0.0F;
  const Heatmap small = pooled(map, 2, 2);
  EXPECT_EQ(small.values[0], 0.0F);
  EXPECT_TRUE(std::isnan(small.values[1]) && std::isnan(small.values[3]));
  EXPECT_DOUBLE_EQ(small.x_begin - small.x_step / 2, map.x_begin - map.x_step / 2);
  EXPECT_DOUBLE_EQ(small.x_begin + 1.5 * small.x_step, map.x_begin + 3.5 * map.x_step);
}

}  // namespace
}  // namespace posenc::draw
