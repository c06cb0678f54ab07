// Text inside SVG and HTML.
#pragma once

#include <string>
#include <string_view>

namespace posenc::draw {

// The five characters that markup gives a meaning become entities; what is no character of UTF-8, and control
// characters but newline and tab, the sign for an unreadable one: XML forbids both.
std::string escaped(std::string_view text);

}  // namespace posenc::draw
