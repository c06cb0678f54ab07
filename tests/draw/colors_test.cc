#include "draw/colors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace posenc::draw {
namespace {

double linear(std::uint8_t byte) {
  const double v = byte / 255.0;
  return v <= 0.04045 ? v / 12.92 : std::pow((v + 0.055) / 1.055, 2.4);
}
enum class Deficiency { kProtan, kDeutan, kTritan };
// As a person with this deficiency sees it: Machado, Oliveira and Fernandes 2009, severity 1.0, on linear RGB.
Rgb simulate(Rgb color, Deficiency deficiency) {
  static constexpr std::array<std::array<double, 9>, 3> kMatrices = {
      {{0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116,
        1.051998},
       {0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.011820, 0.042940, 0.968881},
       {1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367,
        0.303900}}};
  const auto& m = kMatrices[static_cast<std::size_t>(deficiency)];
  const std::array<double, 3> in = {linear(color.r), linear(color.g), linear(color.b)};
  std::array<std::uint8_t, 3> out{};
  for (std::size_t i = 0; i < 3; ++i) {
    const double v =
        std::clamp(m[3 * i] * in[0] + m[3 * i + 1] * in[1] + m[3 * i + 2] * in[2], 0.0, 1.0);
    const double encoded = v <= 0.0031308 ? 12.92 * v : 1.055 * std::pow(v, 1 / 2.4) - 0.055;
    out[i] = static_cast<std::uint8_t>(std::lround(encoded * 255));
  }
  return {out[0], out[1], out[2]};
}

// As everybody sees it, and as each deficiency does.
std::vector<Rgb> views(Rgb color) {
  return {color, simulate(color, Deficiency::kProtan), simulate(color, Deficiency::kDeutan),
          simulate(color, Deficiency::kTritan)};
}

double luminance(Rgb c) {
  return 0.2126 * linear(c.r) + 0.7152 * linear(c.g) + 0.0722 * linear(c.b);
}
// WCAG's ratio, 1 to 21.
double contrast(Rgb a, Rgb b) {
  const double x = luminance(a);
  const double y = luminance(b);
  return (std::max(x, y) + 0.05) / (std::min(x, y) + 0.05);
}

struct Lab {
  double l, a, b;
};
// CIELAB under D65, written here on its own.
Lab lab(Rgb c) {
  const double r = linear(c.r);
  const double g = linear(c.g);
  const double b = linear(c.b);
  const auto f = [](double t) { return t > 0.008856 ? std::cbrt(t) : 7.787 * t + 16.0 / 116; };
  const double x = f((0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.95047);
  const double y = f(0.2126 * r + 0.7152 * g + 0.0722 * b);
  const double z = f((0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.08883);
  return {116 * y - 16, 500 * (x - y), 200 * (y - z)};
}
double lightness(Rgb color) { return lab(color).l; }
double distance(Rgb a, Rgb b) {
  const Lab p = lab(a);
  const Lab q = lab(b);
  return std::hypot(p.l - q.l, p.a - q.a, p.b - q.b);
}

TEST(Colors, SequentialMapBrightensEvenlyForEveryEye) {
  const auto table = color_table(ColorMap::kSequential, Theme::kLight);
  for (std::size_t view = 0; view < 4; ++view) {
    const double whole = lightness(views(table[255])[view]) - lightness(views(table[0])[view]);
    EXPECT_GT(whole, 60) << view;
    for (std::size_t i = 16; i < 256; i += 16) {
      const double step = lightness(views(table[i])[view]) - lightness(views(table[i - 16])[view]);
      EXPECT_GT(step, whole / 16 * 0.35) << "view " << view << " entry " << i;
      EXPECT_LT(step, whole / 16 * 2.2) << "view " << view << " entry " << i;
    }
  }
}

TEST(Colors, DivergingMapIsNeutralInTheMiddleAndEvenOnBothSides) {
  for (const Theme theme : {Theme::kLight, Theme::kDark}) {
    const auto table = color_table(ColorMap::kDiverging, theme);
    const double sign = theme == Theme::kLight ? -1 : 1;  // away from the paper
    for (std::size_t i = 0; i < 120; i += 8) {
      EXPECT_GT(sign * (lightness(table[i]) - lightness(table[i + 8])), 0) << i;
      EXPECT_GT(sign * (lightness(table[255 - i]) - lightness(table[247 - i])), 0) << i;
    }
    const Rgb middle = table[128];
    EXPECT_LE(std::max({middle.r, middle.g, middle.b}) - std::min({middle.r, middle.g, middle.b}),
              6);
    for (std::size_t view = 0; view < 4; ++view) {
      EXPECT_GT(distance(views(table[0])[view], views(table[255])[view]), 20) << view;
    }
  }
}

TEST(Colors, CyclicMapHasNoSeamAndNoTwoAlike) {
  const auto table = color_table(ColorMap::kCyclic, Theme::kLight);
  EXPECT_LT(distance(table[255], table[0]), 4);
  for (std::size_t i = 0; i < 256; i += 32) {
    for (std::size_t j = i + 32; j < 256; j += 32) {
      for (std::size_t view = 0; view < 3; ++view) {
        EXPECT_GT(distance(views(table[i])[view], views(table[j])[view]), 8) << i << " " << j;
      }
    }
  }
}

TEST(Colors, CurvesCanBeToldApartAndReadOnTheirPaper) {
  const Rgb white{255, 255, 255};
  const Rgb black{0x14, 0x18, 0x1d};
  for (const Theme theme : {Theme::kLight, Theme::kDark}) {
    for (int i = 0; i < kPaletteSize; ++i) {
      EXPECT_GT(contrast(palette(i, theme), theme == Theme::kLight ? white : black), 2.5) << i;
      for (int j = 0; j < i; ++j) {
        const auto a = views(palette(i, theme));
        const auto b = views(palette(j, theme));
        for (std::size_t view = 0; view < 4; ++view) {
          EXPECT_GT(distance(a[view], b[view]), 9)
              << i << " " << j << " view " << view << " theme " << static_cast<int>(theme);
        }
      }
    }
    EXPECT_EQ(palette(0, theme), palette(kPaletteSize, theme));
  }
}

TEST(Colors, AreWrittenAsCssHas) { EXPECT_EQ(css({1, 171, 255}), "#01abff"); }

}  // namespace
}  // namespace posenc::draw
