#include "serve/assets.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "draw/colors.h"

namespace posenc::serve {
namespace {

std::string curve_colors(draw::Theme theme) {
  std::string list;
  for (int i = 0; i < draw::kPaletteSize; ++i) {
    list += fmt::format("\"{}\", ", draw::css(draw::palette(i, theme)));
  }
  return list;
}

std::string color_module() {
  std::string out = "export const SEQUENTIAL = [";
  for (const draw::Rgb c : draw::color_table(draw::ColorMap::kSequential, draw::Theme::kLight)) {
    fmt::format_to(std::back_inserter(out), "[{},{},{}],", c.r, c.g, c.b);
  }
  return out + fmt::format("];\nexport const CURVES = {{ light: [{}], dark: [{}] }};\n",
                           curve_colors(draw::Theme::kLight), curve_colors(draw::Theme::kDark));
}

}  // namespace

std::string_view asset(std::string_view name) {
  static const std::string kColors = color_module();
  if (name == "colors.js") return kColors;
  const auto all = assets();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Asset& entry) { return entry.name == name; });
  return found == all.end() ? std::string_view() : found->content;
}

}  // namespace posenc::serve
