// Mistakes in the words of a command: one line that says what is wrong and what to write.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace posenc::cli {

// CLI11 would only say that a verb is missing, not that this one does not exist.
void check_verbs(const CLI::App& app, const std::vector<std::string>& words);

// Prints the mistake; the exit code.
int report_mistake(const CLI::App& app, const CLI::ParseError& problem);

}  // namespace posenc::cli
