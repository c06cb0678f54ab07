// Positional encodings as compositions of libtorch operations.
#pragma once

#include <ATen/ATen.h>

#include "posenc/encodings/rotary.h"
#include "posenc/encodings/spec.h"

namespace posenc::bench {

// Whether the compositions compute this encoding, with its fields, for causal attention. Those that they do
// not are refused with an Error.
bool is_composed(const Encoding& encoding);

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

// Of every rotation of a spec, in order.
std::vector<RopeTables> rope_tables(const Spec& spec, const ModelShape& shape, std::int64_t tokens,
                                    at::ScalarType type);

// What is known before a call: distances, buckets.
struct Distances {
  explicit Distances(std::int64_t tokens, const Spec& spec);
  at::Tensor hidden;    // [T, T], true above the diagonal
  at::Tensor distance;  // [T, T], i - j below the diagonal, else 0
  // Per encoding: T5's buckets or the clipped distance of a relative bias, [T, T]; else undefined.
  std::vector<at::Tensor> entries;
};

// scores [B, H, T, T] plus every encoding of sites 3 and 4, not yet masked.
at::Tensor add_encodings(const Spec& spec, const TorchParameters& parameters,
                         const Distances& distances, const at::Tensor& q, at::Tensor scores);

}  // namespace posenc::bench
