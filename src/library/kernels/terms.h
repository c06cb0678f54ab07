// A spec compiled for a shape: what each of its encodings is to attention. Facts alone, the same for every backend; what
// a plan keeps between calls is the plan's own.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "posenc/encodings/spec.h"

namespace posenc {

struct Terms {
  Spec spec;
  ModelShape shape;
  std::int64_t kv_heads = 1;
  Lengths lengths;
  std::int64_t axes = 1;            // coordinates of a position: the most that an encoding reads
  std::vector<SpecInput> inputs;    // what AttentionCall::inputs holds
  std::string input_names;          // for messages
  std::vector<std::size_t> rotary;  // indices of site-2 encodings, in order
  std::vector<Rotary> rotations;  // of each of them; trained frequencies have their initial values
  std::vector<std::size_t> biases;   // of site 3
  std::optional<std::size_t> fire;   // of the one FIRE that is fused
  std::optional<std::size_t> cope;   // of the one CoPE that is fused
  std::optional<std::size_t> token;  // of the one token term that is fused
  std::vector<std::size_t> sinks;
  std::optional<double> softcap;  // of the one that is fused
  std::string obstacle;           // why nothing is fused; empty when it is
};

// Throws Error where the spec does not fit the shape or has encodings of site 1.
Terms compile_terms(Spec spec, const ModelShape& shape, std::int64_t kv_heads, Lengths lengths);

}  // namespace posenc
