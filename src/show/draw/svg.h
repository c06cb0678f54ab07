// A figure as SVG: text as text, maps as embedded PNG, readable at 100 % on white and on black.
#pragma once

#include <string>

#include "draw/figure.h"

namespace posenc::draw {

// kAuto follows the reader's setting (prefers-color-scheme), which programs that only paint do not have.
enum class Look { kAuto, kLight, kDark };
constexpr std::array<std::string_view, 3> enum_names(Look /*tag*/) {
  return {"auto", "light", "dark"};
}

struct SvgOptions {
  Look look = Look::kAuto;
  // Within a page that has several figures and styles of its own: no background, no <style>; the page
  // carries svg_style() once.
  bool embedded = false;
};

// Throws Error where the figure does not validate.
std::string to_svg(const Figure& figure, const SvgOptions& options = {});

// The style sheet that embedded figures share. Colours of the dark look apply under
// prefers-color-scheme, or below an element with data-theme="dark".
std::string svg_style(Look look);
// What lies below a figure: "#ffffff".
const char* paper_color(Theme theme);

}  // namespace posenc::draw
