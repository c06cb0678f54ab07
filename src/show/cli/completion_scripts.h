// Completion scripts of shells, made from the verbs and options of the program.
#pragma once

#include <string>

#include "command/verb_doc.h"

namespace posenc::cli {

std::string bash_completion(const command::VerbDoc& program);
std::string zsh_completion(const command::VerbDoc& program);
std::string fish_completion(const command::VerbDoc& program);

}  // namespace posenc::cli
