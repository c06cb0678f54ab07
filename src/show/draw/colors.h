// Colours that are distinguishable with any colour vision, on white and on black.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace posenc::draw {

enum class ColorMap {
  kSequential,  // dark to bright, even steps of lightness (cividis' idea: blue to yellow)
  kDiverging,   // blue below 0, orange above, neutral at 0
  kCyclic       // angles: the two ends meet
};
constexpr std::array<std::string_view, 3> enum_names(ColorMap /*tag*/) {
  return {"sequential", "diverging", "cyclic"};
}

struct Rgb {
  std::uint8_t r = 0;
  std::uint8_t g = 0;
  std::uint8_t b = 0;
  bool operator==(const Rgb&) const = default;
};

enum class Theme { kLight, kDark };
constexpr std::array<std::string_view, 2> enum_names(Theme /*tag*/) { return {"light", "dark"}; }

// 256 entries; the diverging map's neutral middle is the theme's background.
std::array<Rgb, 256> color_table(ColorMap map, Theme theme);

// Colours of curves. They repeat after kPaletteSize; painters then change the dashes.
inline constexpr int kPaletteSize = 8;
Rgb palette(int index, Theme theme);

std::string css(Rgb color);  // "#1f77b4"

}  // namespace posenc::draw
