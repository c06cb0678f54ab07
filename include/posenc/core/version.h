// The version of posenc. The build system reads it from this file.
#pragma once

#define POSENC_VERSION_MAJOR 0
#define POSENC_VERSION_MINOR 2
#define POSENC_VERSION_PATCH 0
#define POSENC_VERSION_STRING "0.2.0"

// SPDX-License-Identifier: MIT
