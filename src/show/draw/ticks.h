// Tick positions and labels of an axis.
#pragma once

#include <string>
#include <vector>

#include "draw/figure.h"

namespace posenc::draw {

struct Tick {
  double at = 0.0;
  std::string text;
};

// At most `most` of them, at round numbers; powers on a logarithmic axis; every n-th of an axis's words.
std::vector<Tick> ticks(const Axis& axis, Range range, int most);

// A number as a person writes it: 0.25, 1 500 as 1500, 100000 as 10⁵, 1.5e-7 otherwise.
std::string tick_text(double value);

// The end of a colour bar in three digits; what is next to nothing in `span` is 0.
std::string rounded_text(double value, double span);

// Width of text in a sans-serif font, in units of its size: near enough to lay out by.
double text_width(std::string_view text);

}  // namespace posenc::draw
