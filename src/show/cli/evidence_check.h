// posenc reproduce --check and --page: the generated parts of a page, and the committed runs behind them.
#pragma once

#include <string>

#include "cli/evidence_files.h"

namespace posenc::cli {

// Prints a line for everything that differs; returns the exit code.
int check_page(const EvidenceFiles& files, const sweep::EvidenceFile& file);
// Writes the blocks and pictures. Nothing is written where the runs are not those of the sweeps.
int write_page(const EvidenceFiles& files, const sweep::EvidenceFile& file);

}  // namespace posenc::cli
