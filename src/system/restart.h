// Settings that libraries read from the environment when a process starts, so changing them requires a
// restart of the process.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace posenc {

using EnvironmentSettings = std::vector<std::pair<std::string, std::string>>;

// The CPU that the OpenBLAS of this process takes this one for; empty where there is none.
std::string openblas_core();
// libtorch's number of threads does not reach OpenBLAS's own pool.
void set_openblas_threads(int threads);

// Debian's OpenBLAS takes CPUs newer than itself for very old ones and is then ten times slower: the name
// of a better choice, or nothing where it chose well.
EnvironmentSettings better_openblas();

// libtorch's threads, OpenBLAS's and posenc's take turns on the same cores. Those that spin while they
// wait keep the others from working: a training step took seven times as long with two threads.
EnvironmentSettings patient_threads();

// Starts this program again, with the same arguments and these settings, unless the environment has a
// value for each already. Returns where there is nothing to set, or where that fails.
void restart_with(const EnvironmentSettings& settings);

}  // namespace posenc
