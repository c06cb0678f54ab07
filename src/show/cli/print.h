// The one place where the program prints. Names, configs and messages of files pass through printable(),
// so that they cannot send commands to the terminal; tests/rules/check_printing.py holds every verb to it.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string_view>
#include <utility>

#include "core/plain_text.h"

namespace posenc::cli {

template <class... Arguments>
void print(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  fmt::print("{}", printable(fmt::format(format, std::forward<Arguments>(arguments)...)));
}

// A document of JSON and a line break.
inline void print_json(std::string_view json) { fmt::print("{}\n", printable_json(json)); }

// One line on the standard error.
template <class... Arguments>
void print_error(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  fmt::print(stderr, "{}\n", one_line(fmt::format(format, std::forward<Arguments>(arguments)...)));
}

}  // namespace posenc::cli
