// All verbs of posenc as data, those of posenc-lab and posenc-bench included.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "command/verb_doc.h"

namespace posenc::cli {

// Verbs that another program runs have no options here where that program is not built.
command::VerbDoc program_verbs(const CLI::App& app);

// A verb with the words that lead to it: "sweep status".
struct VerbPath {
  std::string words;
  const command::VerbDoc* verb;
};
// Of a program and all verbs below it, in the order of the help; the program itself has no words.
std::vector<VerbPath> all_verbs(const command::VerbDoc& program);

// What the first argument of a verb may be, where that is a list of names: the verbs for help, encodings for list.
std::vector<std::string> argument_choices(const command::VerbDoc& program, std::string_view words);

}  // namespace posenc::cli
