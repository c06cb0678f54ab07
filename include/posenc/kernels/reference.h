// The float64 reference of every operation, forward and backward: plain scalar code, written for
// clarity, not speed. It defines the expected results of the fast kernels.
#pragma once

#include "posenc/kernels/ref/attention.h"
#include "posenc/kernels/ref/embedding.h"
#include "posenc/kernels/ref/linear_attention.h"
#include "posenc/kernels/ref/rope.h"
#include "posenc/kernels/ref/tokens.h"

// SPDX-License-Identifier: MIT
