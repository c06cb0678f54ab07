// Names of PyTorch's C++ interface that differ between versions.
#pragma once

#include <torch/version.h>

// Minor numbers count within a major one: 3.0 is newer than 2.4.
#define POSENC_VERSION_AT_LEAST(major, minor, wanted_major, wanted_minor) \
  ((major) > (wanted_major) || ((major) == (wanted_major) && (minor) >= (wanted_minor)))
#define POSENC_TORCH_AT_LEAST(major, minor) \
  POSENC_VERSION_AT_LEAST(TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR, major, minor)
