// Tables for papers, for LaTeX's package booktabs.
#pragma once

#include <string>

#include "report/tables.h"

namespace posenc::report {

// A table environment with the title as its caption. Notes are comments above it.
std::string latex_table(const TextTable& table);

// All tables of a comparison, with encodings' names in full.
std::string to_latex(const Comparison& comparison);

}  // namespace posenc::report
