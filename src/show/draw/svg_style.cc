#include <fmt/format.h>

#include <iterator>

#include "draw/svg.h"

namespace posenc::draw {
namespace {

struct Tones {
  const char* paper;
  const char* ink;
  const char* soft;
  const char* grid;
  const char* axis;
  const char* shade;
};

constexpr Tones kLightTones{"#ffffff", "#1c2127", "#56606b", "#e4e7eb", "#8d96a0", "#7d8894"};
constexpr Tones kDarkTones{"#14181d", "#e8ebef", "#a3adb8", "#2a3038", "#707a86", "#9aa5b1"};

// What depends on the look; `scope` is put before every selector.
std::string tone_rules(Theme theme, const std::string& scope) {
  const Tones& t = theme == Theme::kLight ? kLightTones : kDarkTones;
  std::string out = fmt::format(
      "{0}.pe-paper{{fill:{1}}}{0}.pe-text{{fill:{2}}}{0}.pe-soft{{fill:{3}}}"
      "{0}.pe-grid{{stroke:{4}}}{0}.pe-axis{{stroke:{5}}}{0}.pe-shade{{fill:{6}}}"
      "{0}.pe-rule{{stroke:{3}}}{0}.pe-rim{{stroke:{5}}}{0}.pe-muted{{stroke:{5}}}{0}.pe-hatch{{"
      "stroke:{5}}}{0}.pe-halo{{"
      "stroke:{1}}}",
      scope, t.paper, t.ink, t.soft, t.grid, t.axis, t.shade);
  for (int i = 0; i < kPaletteSize; ++i) {
    fmt::format_to(std::back_inserter(out), "{0}.pe-s{1}{{stroke:{2}}}{0}.pe-f{1}{{fill:{2}}}",
                   scope, i, css(palette(i, theme)));
  }
  const bool light = theme == Theme::kLight;
  return out + fmt::format("{0}.pe-on-light{{display:{1}}}{0}.pe-on-dark{{display:{2}}}\n", scope,
                           light ? "inline" : "none", light ? "none" : "inline");
}

constexpr const char* kShapes =
    ".pe-text,.pe-soft{font-family:system-ui,'DejaVu Sans',sans-serif}"
    ".pe-title{font-weight:600}"
    ".pe-grid,.pe-axis{fill:none;stroke-width:1}"
    ".pe-line{fill:none;stroke-width:1.8;stroke-linejoin:round;stroke-linecap:round}"
    ".pe-hatch{stroke-width:1.4;stroke-opacity:.75}"
    ".pe-d1,.pe-d2,.pe-d3,.pe-d4,.pe-dashed{stroke-linecap:butt}"
    ".pe-d1{stroke-dasharray:9 3}.pe-d2{stroke-dasharray:2 2.5}"
    ".pe-d3{stroke-dasharray:9 3 2 3}.pe-d4{stroke-dasharray:14 3 2 2 2 3}"
    ".pe-dashed{stroke-dasharray:5 4}"
    ".pe-band{stroke:none;fill-opacity:.17}"
    ".pe-whisker{fill:none;stroke-width:1.6;stroke-opacity:.45}"
    ".pe-bar{stroke:none;fill-opacity:.8}"
    ".pe-dot{stroke:none}.pe-hit{fill:transparent;stroke:none}"
    ".pe-shade{stroke:none;fill-opacity:.16}.pe-lighter{fill-opacity:.06}"
    ".pe-halo{stroke-width:3;stroke-linejoin:round;paint-order:stroke}"
    ".pe-rule{stroke-width:1.2;stroke-dasharray:4 3;fill:none}"
    ".pe-rim{fill:none;stroke-width:1}.pe-trail{fill:none;stroke-width:3;stroke-opacity:.25}"
    ".pe-hand{fill:none;stroke-width:2.4;stroke-linecap:round}\n";

}  // namespace

const char* paper_color(Theme theme) {
  return theme == Theme::kLight ? kLightTones.paper : kDarkTones.paper;
}

std::string svg_style(Look look) {
  std::string out = kShapes;
  if (look == Look::kDark) return out + tone_rules(Theme::kDark, "");
  out += tone_rules(Theme::kLight, "");
  if (look == Look::kLight) return out;
  out += "@media (prefers-color-scheme:dark){\n" +
         tone_rules(Theme::kDark, ":root:not([data-theme=light]) ") + "}\n";
  return out + tone_rules(Theme::kDark, "[data-theme=dark] ");
}

}  // namespace posenc::draw
