// Colours, on terminals alone.
#pragma once

#include <string>
#include <string_view>

namespace posenc::command {

enum class Colour { kNone, kBold, kRed, kGreen, kYellow };

// A terminal that has colours, and a user who has not set NO_COLOR (no-color.org).
bool has_colours(int file);

std::string coloured(std::string_view text, Colour colour);

}  // namespace posenc::command
