// Colours and widths, of terminals alone.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace posenc::command {

enum class Colour { kNone, kBold, kRed, kGreen, kYellow };

// A terminal that has colours, and a user who has not set NO_COLOR (no-color.org).
bool has_colours(int file);

// Columns of a terminal; 0 where the output is a file or a pipe, or the terminal does not say.
std::size_t terminal_width(int file);

std::string coloured(std::string_view text, Colour colour);

}  // namespace posenc::command
