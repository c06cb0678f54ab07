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

// Where text of a size ends, for texts that begin at their place.
double right_end(const std::string& svg, const std::string& size) {
  const std::regex text("<text class=\"[^\"]*\" x=\"([^\"]*)\" y=\"[^\"]*\" font-size=\"" + size +
                        "\" text-anchor=\"start\">([^<]*)</text>");
  double right = 0.0;
  for (std::sregex_iterator at(svg.begin(), svg.end(), text), end; at != end; ++at) {
    right = std::max(right, std::stod((*at)[1]) + text_width((*at)[2].str()) * std::stod(size));
  }
  return right;
}

double width_of(const std::string& svg) {
  std::smatch found;
  EXPECT_TRUE(std::regex_search(svg, found, std::regex("viewBox=\"0 0 ([0-9.]+) ")));
  return std::stod(found[1]);
}

TEST(Legends, LongNamesStayInsideTheFigure) {
  Panel panel;
  panel.curves = {{.name = "rope(schedule=llama3(factor=4, low_freq_factor=1, high_freq_factor=4, "
                           "original_max_position_embeddings=2048))",
                   .x = {1, 2},
                   .y = {1, 2}},
                  {.name = "rope", .x = {1, 2}, .y = {2, 1}, .color = 1}};
  Figure figure{.title = "t", .panels = {panel}};
  figure.panel_width = 200;
  const std::string svg = to_svg(figure, {.embedded = true});
  EXPECT_NE(svg.find("low_freq_factor=1"), std::string::npos) << "nothing of the name is lost";
  EXPECT_GT(right_end(svg, "12"), 100.0);
  EXPECT_LE(right_end(svg, "12"), width_of(svg));
}

TEST(Legends, ALongTitleTakesSeveralLines) {
  Figure figure{.title = "", .panels = {{}}};
  for (int i = 0; i < 30; ++i) figure.title += "title ";
  const std::string svg = to_svg(figure, {.embedded = true});
  EXPECT_LE(right_end(svg, "15"), width_of(svg));
}

Heatmap causal_map() {
  return {.rows = 2, .columns = 2, .values = {0, NAN, 1, 0}, .masked = "hidden <key>"};
}

TEST(Maps, MaskedCellsAreHatchedAndNamed) {
  Panel panel;
  panel.map = causal_map();
  const std::string svg = to_svg({.panels = {panel}}, {.embedded = true});
  EXPECT_NE(svg.find("hidden &lt;key&gt;"), std::string::npos);
  std::smatch hatch;
  ASSERT_TRUE(std::regex_search(svg, hatch, std::regex("<pattern id=\"([^\"]+-hatch)\"")));
  EXPECT_NE(svg.find("fill=\"url(#" + hatch[1].str() + ")\""), std::string::npos);
  panel.map->values = {0, 0, 1, 0};
  const std::string whole = to_svg({.panels = {panel}}, {.embedded = true});
  EXPECT_EQ(whole.find("<pattern"), std::string::npos);
  EXPECT_EQ(whole.find("hidden"), std::string::npos);
}

TEST(Maps, TheEndsOfTheBarAreThoseOfTheData) {
  Panel panel;
  panel.map = causal_map();
  panel.map->values = {-0.123456F, NAN, 7.891F, 0};
  const std::string svg = to_svg({.panels = {panel}}, {.embedded = true});
  EXPECT_NE(svg.find(">-0.123</text>"), std::string::npos);
  EXPECT_NE(svg.find(">7.89</text>"), std::string::npos);
}

// 330 pixels and six lengths, as in pictures of results: the longest is the one that matters.
TEST(LogAxes, HaveATickAtTheLongestLength) {
  Panel panel;
  panel.x = {.label = "times the trained length", .log = true, .base2 = true};
  panel.curves = {{.name = "", .x = {1, 2, 4, 8, 16, 32}, .y = {1, 2, 3, 4, 5, 6}}};
  Figure figure{.panels = {panel}};
  figure.panel_width = 330;
  const std::string svg = to_svg(figure, {.embedded = true});
  for (const char* tick : {">1</text>", ">2</text>", ">16</text>", ">32</text>"}) {
    EXPECT_NE(svg.find(tick), std::string::npos) << tick;
  }
}

}  // namespace
}  // namespace posenc::draw
