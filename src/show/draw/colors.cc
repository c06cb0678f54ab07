#include "draw/colors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace posenc::draw {
namespace {

// Oklab (Ottosson 2020): lightness L in [0, 1], a green to red, b blue to yellow. Even steps in it look
// even, so the maps are straight lines or circles in this space.
struct Lab {
  double l = 0.0;
  double a = 0.0;
  double b = 0.0;
};

Lab mix(const Lab& from, const Lab& to, double t) {
  return {std::lerp(from.l, to.l, t), std::lerp(from.a, to.a, t), std::lerp(from.b, to.b, t)};
}

std::array<double, 3> linear_rgb(const Lab& c) {
  const double l = std::pow(c.l + 0.3963377774 * c.a + 0.2158037573 * c.b, 3);
  const double m = std::pow(c.l - 0.1055613458 * c.a - 0.0638541728 * c.b, 3);
  const double s = std::pow(c.l - 0.0894841775 * c.a - 1.2914855480 * c.b, 3);
  return {4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
          -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
          -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s};
}

// The transfer curve of sRGB (IEC 61966-2-1).
double encoded(double linear) {
  const double v = std::clamp(linear, 0.0, 1.0);
  return v <= 0.0031308 ? 12.92 * v : 1.055 * std::pow(v, 1 / 2.4) - 0.055;
}
std::uint8_t byte_of(double linear) {
  return static_cast<std::uint8_t>(std::lround(encoded(linear) * 255));
}

bool shown(const std::array<double, 3>& rgb) {
  return std::all_of(rgb.begin(), rgb.end(), [](double v) { return v >= -1e-4 && v <= 1 + 1e-4; });
}

// Colours that a screen lacks lose chroma, not lightness.
Rgb on_screen(Lab c) {
  for (int i = 0; i < 64 && !shown(linear_rgb(c)); ++i) {
    c.a *= 0.95;
    c.b *= 0.95;
  }
  const auto rgb = linear_rgb(c);
  return {byte_of(rgb[0]), byte_of(rgb[1]), byte_of(rgb[2])};
}

Lab polar(double l, double chroma, double degrees) {
  const double angle = degrees * std::numbers::pi / 180;
  return {l, chroma * std::cos(angle), chroma * std::sin(angle)};
}

// Lightness rises evenly; the hue goes from violet over teal to yellow, so that red-green deficient eyes,
// which see blue to yellow and lightness, lose nothing.
Lab sequential(double t) {
  return polar(std::lerp(0.22, 0.94, t), std::lerp(0.10, 0.16, t), std::lerp(295.0, 105.0, t));
}

Lab diverging(double t, Theme theme) {
  const bool light = theme == Theme::kLight;
  const Lab middle = {light ? 0.98 : 0.21, 0.0, 0.0};
  const double end = light ? 0.42 : 0.86;
  const double distance = std::abs(2 * t - 1);
  const Lab side = t < 0.5 ? polar(end, 0.15, 255) : polar(end + (light ? 0.06 : 0.0), 0.15, 55);
  return mix(middle, side, distance);
}

// Lightness is the cosine and blue to yellow the sine, so each angle differs in one of them.
Lab cyclic(double t) {
  const double angle = 2 * std::numbers::pi * t;
  return {0.60 + 0.27 * std::cos(angle), 0.03 * std::sin(angle), 0.12 * std::sin(angle)};
}

Lab at(ColorMap map, Theme theme, double t) {
  switch (map) {
    case ColorMap::kDiverging:
      return diverging(t, theme);
    case ColorMap::kCyclic:
      return cyclic(t);
    case ColorMap::kSequential:
      break;
  }
  return sequential(t);
}

// Hues and steps of lightness chosen together: neighbours differ in both (colors_test measures it).
constexpr std::array<std::array<double, 3>, kPaletteSize> kHues = {{{0.50, 0.15, 255},
                                                                    {0.57, 0.17, 48},
                                                                    {0.58, 0.13, 165},
                                                                    {0.45, 0.16, 330},
                                                                    {0.70, 0.13, 235},
                                                                    {0.70, 0.14, 92},
                                                                    {0.40, 0.06, 60},
                                                                    {0.66, 0.15, 345}}};

}  // namespace

std::array<Rgb, 256> color_table(ColorMap map, Theme theme) {
  std::array<Rgb, 256> table;
  // A cyclic map comes round to its first entry only after the last.
  const double last = map == ColorMap::kCyclic ? 256.0 : 255.0;
  for (std::size_t i = 0; i < table.size(); ++i) {
    table[i] = on_screen(at(map, theme, static_cast<double>(i) / last));
  }
  return table;
}

Rgb palette(int index, Theme theme) {
  const auto& [l, chroma, hue] = kHues[static_cast<std::size_t>(index) % kPaletteSize];
  return on_screen(polar(theme == Theme::kLight ? l : l + 0.17, chroma, hue));
}

std::string css(Rgb color) { return fmt::format("#{:02x}{:02x}{:02x}", color.r, color.g, color.b); }

}  // namespace posenc::draw
