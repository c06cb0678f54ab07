// The float64 reference of every operation, forward and backward. It is the specification: slow,
// scalar, and what every fast kernel is compared with.
#pragma once

#include "posenc/kernels/ref/attention.h"
#include "posenc/kernels/ref/embedding.h"
#include "posenc/kernels/ref/linear_attention.h"
#include "posenc/kernels/ref/rope.h"
#include "posenc/kernels/ref/tokens.h"
