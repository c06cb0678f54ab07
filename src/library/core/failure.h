// A one-line message for any exception.
#pragma once

#include <exception>
#include <string>

namespace posenc {

// "out of memory" where an allocation failed, else the first line of its text: libtorch appends frames of
// C++ to what it throws.
std::string failure_text(const std::exception& failure);

}  // namespace posenc
