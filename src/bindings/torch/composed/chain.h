// PaTH and Wall (path.h, wall.h) as libtorch operations: tiles of keys from the last to the first, each with a product for
// all queries at or after it. Gradients come from autograd.
#pragma once

#include "torch/composed/composed.h"

namespace posenc::ops {

// What takes the place of the products of queries and keys, [B, H, Tq, Tk], without the scale. `q` is [B, H, Tq, D] after
// site 2, and `k` [B, H, Tk, D].
at::Tensor chained_products(const ComposedCall& call, const at::Tensor& q, const at::Tensor& k);

// Throws where a gate of Wall of a token that is not hidden is above 1 or NaN: reads it back from the device.
void check_gates(const ComposedCall& call);

// Gates below it are nothing in every type, and sums of them stay exact.
inline constexpr double kLowestLogGate = -1e4;

}  // namespace posenc::ops
