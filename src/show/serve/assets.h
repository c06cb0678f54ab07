// Pages that are part of the program: src/show/serve/assets, put into the library by cmake/PosencEmbed.cmake.
#pragma once

#include <span>
#include <string_view>

namespace posenc::serve {

struct Asset {
  std::string_view name;  // "live.html"
  std::string_view content;
};
std::span<const Asset> assets();

// The content by name; empty where there is none. `colors.js` is made of draw's colours, so that the page
// has those of figures and reports.
std::string_view asset(std::string_view name);

}  // namespace posenc::serve
