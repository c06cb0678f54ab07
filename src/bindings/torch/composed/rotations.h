// Site 2 as libtorch operations: differentiable, with memory linear in the length.
#pragma once

#include <optional>

#include "torch/composed/composed.h"

namespace posenc::ops {

// What temperatures multiply queries by, float64 [B or 1, H or 1, Tq, 1]; undefined where there are none. `without`: as
// of posenc::query_factor.
at::Tensor query_factors(const Terms& terms, const Tokens& tokens,
                         const std::vector<std::vector<at::Tensor>>& parameters,
                         std::optional<std::size_t> without = std::nullopt);

// Rows of queries or keys through site 2, in the type of x, which is float32 or float64.
at::Tensor rotated(const ComposedCall& call, const std::vector<std::vector<at::Tensor>>& parameters,
                   Role role, at::Tensor x);

// Sums of steps x [B, Hkv, Tk, n] (float64) up to each token, within its sequence; hidden tokens add nothing.
at::Tensor running_sums(const Tokens& tokens, at::Tensor x);

// The rotations that values have too: of values [B, H, Tk, D], or with `back` of outputs [B, H, Tq, D].
at::Tensor rotated_values(const ComposedCall& call,
                          const std::vector<std::vector<at::Tensor>>& parameters, bool back,
                          at::Tensor x);

// Turns x [B, H, T, D] by a rotation at positions [B or 1, T, axes or 1]; `alpha` of the learnable
// schedule, or undefined. Frequencies are those of the query heads.
at::Tensor composed_rotation(const Encoding& encoding, const ModelShape& shape,
                             const Lengths& lengths, Role role, const at::Tensor& x,
                             const at::Tensor& positions, const at::Tensor& alpha);

// Moves rotated keys from one set of positions to another, like posenc::rerotate for one row.
at::Tensor composed_rerotation(const Rotary& from, const at::Tensor& from_positions,
                               const Rotary& to, const at::Tensor& to_positions,
                               const at::Tensor& x);

}  // namespace posenc::ops
