// Positional encodings as compositions of libtorch operations.
#pragma once

#include <ATen/ATen.h>

#include "posenc/encodings/rotary.h"
#include "posenc/encodings/spec.h"

namespace posenc::bench {

// Parameters of a spec as leaves that autograd may follow.
using TorchParameters = std::vector<std::vector<at::Tensor>>;

TorchParameters torch_parameters(const Spec& spec, const ModelShape& shape,
                                 const std::vector<Parameters>& values, bool with_gradient);

// cos and sin [T, D] of one RoPE, as caches of the usual implementations hold them.
struct RopeTables {
  at::Tensor cos;
  at::Tensor sin;
  bool interleaved = false;
};
RopeTables rope_tables(const Rope& rope, const ModelShape& shape, std::int64_t tokens,
                       at::ScalarType type);
at::Tensor apply_rope(const at::Tensor& x, const RopeTables& tables);

// What is known before a call: distances, buckets.
struct Distances {
  explicit Distances(std::int64_t tokens, const Spec& spec);
  at::Tensor hidden;    // [T, T], true above the diagonal
  at::Tensor distance;  // [T, T], i - j below the diagonal, else 0
  at::Tensor buckets;   // T5's, or the clipped distance of a relative bias
};

// scores [B, H, T, T] plus every encoding of sites 3 and 4, not yet masked.
at::Tensor add_encodings(const Spec& spec, const TorchParameters& parameters,
                         const Distances& distances, const at::Tensor& q, at::Tensor scores);

}  // namespace posenc::bench
