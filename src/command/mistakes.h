// Mistakes in the words of a command: one line that says what is wrong and what to write.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace posenc::command {

// CLI11 would only say that a verb is missing, not that this one does not exist.
void check_verbs(const CLI::App& app, const std::vector<std::string>& words);

// The mistake in one line that begins with the program and its verb: "posenc train: --ste is not an option of ...".
std::string mistake_text(const CLI::App& app, const CLI::ParseError& problem);

}  // namespace posenc::command
