#include <gtest/gtest.h>

#include <regex>

#include "draw/svg.h"
#include "draw/ticks.h"

namespace posenc::draw {
namespace {

constexpr double kWidth = 330.0;

Figure two_panels(const std::string& title) {
  Panel panel;
  panel.title = title;
  panel.curves = {{.name = "rope", .x = {1, 2}, .y = {1, 2}}};
  Figure figure{.title = "t", .columns = 2, .panels = {panel, panel}};
  figure.panel_width = kWidth;
  return figure;
}

struct TitleLine {
  double y = 0.0;
  std::string text;
};

std::vector<TitleLine> title_lines(const Figure& figure) {
  const std::string svg = to_svg(figure, {.embedded = true});
  const std::regex line(
      "<text class=\"pe-text pe-title\" x=\"[^\"]*\" y=\"([^\"]*)\" "
      "font-size=\"13\"[^>]*>([^<]*)</text>");
  std::vector<TitleLine> lines;
  for (std::sregex_iterator at(svg.begin(), svg.end(), line), end; at != end; ++at) {
    lines.push_back({std::stod((*at)[1]), (*at)[2]});
  }
  return lines;
}

TEST(PanelTitles, AreWrappedToTheWidthOfTheirPanel) {
  const std::string title = "axis longer, model.attention=linear, model.linear_form=cosine";
  const auto lines = title_lines(two_panels(title));
  ASSERT_EQ(lines.size(), 4U) << "two lines in each panel";
  EXPECT_EQ(lines[0].text + " " + lines[1].text, title);
  EXPECT_GT(lines[1].y, lines[0].y + 13.0) << "one below the other";
  for (const TitleLine& line : lines) EXPECT_LT(text_width(line.text) * 13.0, kWidth);
}

TEST(PanelTitles, AWordThatIsTooWideIsBrokenBetweenLetters) {
  std::string word;
  for (int i = 0; i < 80; ++i) word += "\u00e4";
  const auto lines = title_lines(two_panels("of " + word));
  ASSERT_GT(lines.size(), 2U);
  std::string joined;
  for (std::size_t i = 0; i < lines.size() / 2; ++i) {
    EXPECT_LT(text_width(lines[i].text) * 13.0, kWidth);
    EXPECT_EQ(lines[i].text.find("\ufffd"), std::string::npos) << "no half letter";
    joined += lines[i].text;
  }
  EXPECT_EQ(joined, "of" + word);
}

TEST(PanelTitles, ThatAreShortTakeOneLine) {
  EXPECT_EQ(title_lines(two_panels("axis longer")).size(), 2U);
}

}  // namespace
}  // namespace posenc::draw
