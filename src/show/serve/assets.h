// The live page, which is part of the program: generated from web/ (cmake/PosencEmbed.cmake).
#pragma once

#include <string_view>

namespace posenc::serve {

std::string_view page_script();
std::string_view page_style();
// "live.html", "start.html", "icon.svg", "uplot_license.txt"; empty for other names.
std::string_view page_file(std::string_view name);

}  // namespace posenc::serve
