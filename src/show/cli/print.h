// The one place where the program prints. Names, configs and messages of files pass through printable(),
// so that they cannot send commands to the terminal; tests/rules/check_printing.py holds every verb to it.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include "cli/table.h"
#include "command/help.h"
#include "command/terminal.h"
#include "core/plain_text.h"

namespace posenc::cli {

template <class... Arguments>
void print(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  fmt::print("{}", printable(fmt::format(format, std::forward<Arguments>(arguments)...)));
}

// A document of JSON and a line break.
inline void print_json(std::string_view json) { fmt::print("{}\n", printable_json(json)); }

// Cells are plain already; on a terminal lines fit, the header is bold and states have colours.
inline void print_table(const Table& table, const std::string& indent = "  ") {
  fmt::print("{}", table.text(indent, command::has_colours(STDOUT_FILENO),
                              command::terminal_width(STDOUT_FILENO)));
}

// One line, or as many as it takes on a terminal.
inline std::string fitted_line(std::string_view text) {
  const std::size_t terminal = command::terminal_width(STDOUT_FILENO);
  return terminal == 0 ? one_line(text) : command::wrapped(one_line(text), terminal);
}

// A title, bold on a terminal.
inline void print_title(std::string_view title) {
  const bool colours = command::has_colours(STDOUT_FILENO);
  fmt::print("{}\n", command::coloured(fitted_line(title),
                                       colours ? command::Colour::kBold : command::Colour::kNone));
}

// One line on the standard error; "posenc:" in front is red on a terminal.
template <class... Arguments>
void print_error(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  const std::string line = one_line(fmt::format(format, std::forward<Arguments>(arguments)...));
  const std::size_t end = line.starts_with("posenc") ? line.find(": ") : std::string::npos;
  const std::size_t prefix = end == std::string::npos ? 0 : end + 1;
  const bool colours = command::has_colours(STDERR_FILENO);
  fmt::print(stderr, "{}{}\n",
             command::coloured(line.substr(0, prefix),
                               colours ? command::Colour::kRed : command::Colour::kNone),
             line.substr(prefix));
}

}  // namespace posenc::cli
