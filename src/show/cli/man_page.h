// Manual pages in the man macros of roff.
#pragma once

#include <string>

#include "command/verb_doc.h"

namespace posenc::cli {

// posenc(1): what it is, and all verbs.
std::string program_page(const command::VerbDoc& program);
// posenc-VERB(1): its options, and those of the verbs below it.
std::string verb_page(const command::VerbDoc& verb);

}  // namespace posenc::cli
