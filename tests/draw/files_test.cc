#include "draw/files.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <regex>

#include "posenc/core/error.h"

#ifdef POSENC_HAVE_PNG
#include <png.h>
#endif

namespace posenc::draw {
namespace {

Figure sample() {
  Figure figure;
  figure.title = "decay <b> & \"more\"";
  figure.caption = "what to see";
  Panel lines;
  lines.title = "lines";
  lines.x.label = "distance (tokens)";
  lines.curves.push_back({.name = "rope, theta 1", .x = {0, 1, 2}, .y = {1, NAN, 0.1}});
  lines.curves.push_back(
      {.name = "band", .x = {0, 2}, .y = {1, 2}, .low = {0, 1}, .high = {2, 3}, .color = 1});
  lines.rules.push_back({.at = 1.5, .label = "trained"});
  lines.regions.push_back({.begin = 1.5, .end = 2, .label = "beyond"});
  Panel map;
  map.title = "map";
  map.y_down = true;
  map.map = Heatmap{.rows = 2, .columns = 2, .values = {1, NAN, 0.1F, 4}, .label = "bias"};
  Panel clocks;
  clocks.title = "clocks";
  clocks.clocks.push_back({.label = "pair 0", .angle = std::numbers::pi / 2});
  figure.panels = {lines, map, clocks};
  return figure;
}

TEST(Csv, HasEveryNumberOnceAsItIs) {
  EXPECT_EQ(to_csv(sample()),
            "panel,kind,name,x,y,value,low,high\n"
            "lines,curve,\"rope, theta 1\",0,1,,,\n"
            "lines,curve,\"rope, theta 1\",1,,,,\n"
            "lines,curve,\"rope, theta 1\",2,0.1,,,\n"
            "lines,curve,band,0,1,,0,2\n"
            "lines,curve,band,2,2,,1,3\n"
            "lines,region_x,beyond,,,,1.5,2\n"
            "lines,rule_x,trained,,,1.5,,\n"
            "map,map,bias,0,0,1,,\n"
            "map,map,bias,1,0,,,\n"
            "map,map,bias,0,1,0.1,,\n"
            "map,map,bias,1,1,4,,\n"
            "clocks,clock,pair 0,,,1.5707963267948966,,1\n");
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TEST(Svg, EscapesTextAndHasWhatTheFigureHas) {
  const std::string svg = to_svg(sample());
  EXPECT_EQ(svg.find("<b>"), std::string::npos);
  EXPECT_NE(svg.find("decay &lt;b&gt; &amp; &quot;more&quot;"), std::string::npos);
  EXPECT_EQ(count(svg, "class=\"pe-series\""), 2U);
  EXPECT_EQ(count(svg, "class=\"pe-panel\""), 3U);
  EXPECT_EQ(count(svg, "<clipPath id="), 2U);
  EXPECT_NE(svg.find("distance (tokens)"), std::string::npos);
  EXPECT_EQ(count(svg, "<g "), count(svg, "</g>"));
  EXPECT_EQ(svg.find("nan,"), std::string::npos);
}

// A name from a user's file may be any bytes; the picture is still XML.
TEST(Svg, BytesThatAreNoTextAreShownAsUnreadable) {
  Figure figure = sample();
  figure.title = std::string("a\xff\x01", 3) + "é";
  EXPECT_NE(to_svg(figure).find("<title>a\xEF\xBF\xBD\xEF\xBF\xBDé</title>"), std::string::npos);
}

// The line is broken at NaN: two moves, no line between them.
TEST(Svg, NanBreaksALine) {
  const std::string svg = to_svg(sample());
  std::smatch path;
  ASSERT_TRUE(std::regex_search(svg, path, std::regex("pe-s0\" d=\"([^\"]+)\"")));
  EXPECT_EQ(count(path[1], "M"), 2U);
  EXPECT_EQ(count(path[1], "L"), 0U);
}

TEST(Svg, LooksDifferInColoursAlone) {
  const std::string light = to_svg(sample(), {.look = Look::kLight});
  const std::string dark = to_svg(sample(), {.look = Look::kDark});
  EXPECT_EQ(light.find("prefers-color-scheme"), std::string::npos);
  EXPECT_NE(to_svg(sample()).find("prefers-color-scheme"), std::string::npos);
  EXPECT_EQ(light.substr(light.find("</style>")).size(), dark.substr(dark.find("</style>")).size());
  EXPECT_EQ(to_svg(sample(), {.embedded = true}).find("<style>"), std::string::npos);
}

TEST(Svg, AHandAtAQuarterTurnPointsUp) {
  const std::string svg = to_svg(sample());
  std::smatch hand;
  ASSERT_TRUE(std::regex_search(
      svg, hand,
      std::regex("pe-hand[^>]*x1=\"([^\"]+)\" y1=\"([^\"]+)\" x2=\"([^\"]+)\" y2=\"([^\"]+)\"")));
  EXPECT_EQ(hand[1], hand[3]);
  EXPECT_GT(std::stod(hand[2]), std::stod(hand[4]));  // y grows downwards
}

TEST(Base64, IsTheOneOfTheStandard) {
  const auto of = [](std::string_view text) {
    return base64({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  };
  EXPECT_EQ(of(""), "");
  EXPECT_EQ(of("f"), "Zg==");
  EXPECT_EQ(of("fo"), "Zm8=");
  EXPECT_EQ(of("foobar"), "Zm9vYmFy");
}

std::uint32_t big_endian(const std::string& bytes, std::size_t at) {
  std::uint32_t out = 0;
  for (std::size_t i = 0; i < 4; ++i) out = out << 8U | static_cast<std::uint8_t>(bytes[at + i]);
  return out;
}

TEST(Png, HasTheSizeThatWasAskedFor) {
  const Figure figure = sample();
  std::string once;
  try {
    once = file_content(figure, "a.png", {.scale = 1.0});
  } catch (const Error& e) {
    ASSERT_EQ(e.kind(), ErrorKind::kUnsupported);
    GTEST_SKIP() << e.what();
  }
  const std::string twice = file_content(figure, "a.png", {.scale = 2.0});
  ASSERT_EQ(once.substr(1, 3), "PNG");
  EXPECT_NEAR(big_endian(twice, 16), 2.0 * big_endian(once, 16), 1);
  EXPECT_NE(file_content(figure, "a.png", {.look = Look::kDark}),
            file_content(figure, "a.png", {.look = Look::kLight}));
}

#ifdef POSENC_HAVE_PNG
struct Pixels {
  std::vector<std::uint8_t> rgb;
  std::size_t width = 0;
  std::size_t height = 0;

  [[nodiscard]] std::string at(std::size_t x, std::size_t y) const {
    const std::uint8_t* p = &rgb[3 * (y * width + x)];
    return css({p[0], p[1], p[2]});
  }
};

Pixels read_png(const std::string& bytes) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  EXPECT_NE(png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()), 0);
  image.format = PNG_FORMAT_RGB;
  Pixels out{std::vector<std::uint8_t>(PNG_IMAGE_SIZE(image)), image.width, image.height};
  EXPECT_NE(png_image_finish_read(&image, nullptr, out.rgb.data(), 0, nullptr), 0);
  return out;
}

// The edges are paper at any scale, also where the figure ends within a pixel.
TEST(Png, TheLastColumnAndRowArePaper) {
  Figure figure = sample();
  for (const double width : {420.0, 333.3}) {
    figure.panel_width = width;
    for (const double scale : {0.25, 1.0, 1.37, 2.0}) {
      std::string bytes;
      try {
        bytes = file_content(figure, "a.png", {.look = Look::kLight, .scale = scale});
      } catch (const Error& e) {
        ASSERT_EQ(e.kind(), ErrorKind::kUnsupported);
        GTEST_SKIP() << e.what();
      }
      const Pixels png = read_png(bytes);
      for (std::size_t y = 0; y < png.height; ++y) {
        ASSERT_EQ(png.at(png.width - 1, y), "#ffffff") << width << " " << scale << " row " << y;
      }
      for (std::size_t x = 0; x < png.width; ++x) {
        ASSERT_EQ(png.at(x, png.height - 1), "#ffffff") << width << " " << scale << " column " << x;
      }
    }
  }
}
#endif

TEST(Pdf, IsOneOfTheFigureAndTheSameEveryTime) {
  std::string pdf;
  try {
    pdf = file_content(sample(), "a.pdf");
  } catch (const Error& e) {
    ASSERT_EQ(e.kind(), ErrorKind::kUnsupported);
    GTEST_SKIP() << e.what();
  }
  EXPECT_EQ(pdf.substr(0, 5), "%PDF-");
  EXPECT_NE(pdf.find("/FontFile"), std::string::npos) << "text stays text";
  EXPECT_EQ(pdf.find("CreationDate"), std::string::npos) << "the time would make it another file";
  EXPECT_EQ(pdf, file_content(sample(), "a.pdf"));
}

TEST(Files, AreKnownByTheirEnding) {
  EXPECT_EQ(file_content(sample(), "x.csv"), to_csv(sample()));
  try {
    (void)file_content(sample(), "x.jpg");
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "[figure] x.jpg must end in .svg, .png, .pdf or .csv but got .jpg");
  }
}

}  // namespace
}  // namespace posenc::draw
