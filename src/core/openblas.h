// Debian's OpenBLAS takes CPUs newer than itself for very old ones and is then ten times slower. It
// chooses when a process starts, so a better choice needs a new start.
#pragma once

#include <string>

namespace posenc {

// The CPU that the OpenBLAS of this process takes this one for; empty where there is none.
std::string openblas_core();

// Starts this program again, with the same arguments, where OpenBLAS chose badly and a better choice is
// known; else, and if that fails, returns.
void restart_with_better_openblas();

}  // namespace posenc
