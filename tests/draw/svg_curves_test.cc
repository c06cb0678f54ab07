#include <gtest/gtest.h>

#include <cmath>

#include "draw/svg.h"

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

}  // namespace
}  // namespace posenc::draw
