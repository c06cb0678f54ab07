// The layout of help in posenc's programs: two columns within 80 characters.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

namespace posenc::command {

inline constexpr std::size_t kWidth = 80;

// Breaks between words, so that no line has more characters than `width` unless a word has; lines after the first begin
// with `indent` blanks, which count.
std::string wrapped(std::string_view text, std::size_t width, std::size_t indent = 0);

// Two blanks, `left`, and from `column` on `text`; on a line of its own where `left` is too long.
std::string two_columns(const std::string& left, std::string_view text, std::size_t column);

// For a program and the verbs that are added to it later.
void use_help_layout(CLI::App& app);

}  // namespace posenc::command
