#include <gtest/gtest.h>

#include <cmath>
#include <regex>
#include <set>

#include "draw/svg.h"
#include "draw/svg_canvas.h"

namespace posenc::draw {
namespace {

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

Figure one_curve(bool whiskers) {
  Panel panel;
  panel.curves = {{.name = "rope",
                   .x = {1, 2, 3},
                   .y = {1, 2, NAN},
                   .low = {0, 1, NAN},
                   .high = {2, 3, NAN},
                   .whiskers = whiskers,
                   .stroke = Stroke::kDots}};
  return {.title = "t", .panels = {panel}};
}

TEST(SvgCurves, ADoubtIsABandOrAWhiskerPerPoint) {
  const std::string band = to_svg(one_curve(false), {.embedded = true});
  EXPECT_EQ(count(band, "pe-band"), 1U);
  EXPECT_EQ(count(band, "pe-whisker"), 0U);
  const std::string whiskers = to_svg(one_curve(true), {.embedded = true});
  EXPECT_EQ(count(whiskers, "pe-band"), 0U);
  EXPECT_EQ(count(whiskers, "pe-whisker"), 2U) << "none where there is no figure";
}

// Two equal curves: the second has gaps that the first shows in, whatever the colours look like.
TEST(SvgCurves, EachOfALegendHasDashesOfItsOwn) {
  Panel panel;
  for (int color = 0; color < 8; ++color) {
    panel.curves.push_back(
        {.name = "curve " + std::to_string(color), .x = {1, 2}, .y = {1, 2}, .color = color});
  }
  const std::string svg = to_svg({.title = "t", .panels = {panel}}, {.embedded = true});
  EXPECT_EQ(count(svg, "\"pe-line pe-s0\""), 2U) << "solid, in the legend and in the panel";
  for (const char* classes : {"pe-s1 pe-d1", "pe-s2 pe-d2", "pe-s3 pe-d3", "pe-s4 pe-d4", "pe-s5\"",
                              "pe-s6 pe-d1", "pe-s7 pe-d2"}) {
    EXPECT_EQ(count(svg, classes), 2U) << classes;
  }
  panel.curves = {{.name = "", .x = {1, 2}, .y = {1, 2}, .color = 1}};
  EXPECT_EQ(count(to_svg({.panels = {panel}}, {.embedded = true}), "pe-d1"), 0U)
      << "no legend would say what its dashes mean";
}

TEST(SvgCurves, DotsOfEachColourHaveAShape) {
  Panel panel;
  for (int color = 0; color < 4; ++color) {
    panel.curves.push_back({.name = std::to_string(color),
                            .x = {1},
                            .y = {1},
                            .stroke = Stroke::kDots,
                            .color = color});
  }
  const std::string svg = to_svg({.panels = {panel}}, {.embedded = true});
  const std::regex dot("pe-dot pe-f(\\d)\" d=\"([^\"]*)\">");
  std::set<std::string> shapes;
  for (std::sregex_iterator at(svg.begin(), svg.end(), dot), end; at != end; ++at) {
    shapes.insert(std::regex_replace((*at)[2].str(), std::regex("[-0-9.]+"), "n"));
  }
  EXPECT_EQ(shapes.size(), 3U)
      << "arcs, three corners and four; squares and diamonds both have four";
  EXPECT_NE(mark(1, {0, 0}, 3), mark(3, {0, 0}, 3));
}

}  // namespace
}  // namespace posenc::draw
