// A figure as JSON, with its long arrays left where they are: {"at": address, "count": n, "type": ...}.
#pragma once

#include <string>

#include "draw/figure.h"

namespace posenc::web {

// Good as long as the figure lives where it is.
std::string figure_json(const draw::Figure& figure);

}  // namespace posenc::web
