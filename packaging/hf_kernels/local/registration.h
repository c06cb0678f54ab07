// What kernel-builder generates, for the build without it (CMakeLists.txt): the library is loaded, not imported.
#pragma once

#define STABLE_TORCH_LIBRARY_EXPAND(name, m) STABLE_TORCH_LIBRARY(name, m)
#define REGISTER_EXTENSION(name)
