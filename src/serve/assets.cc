#include "serve/assets.h"

#include <algorithm>

namespace posenc::serve {

std::string_view asset(std::string_view name) {
  const auto all = assets();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Asset& entry) { return entry.name == name; });
  return found == all.end() ? std::string_view() : found->content;
}

}  // namespace posenc::serve
