// One map of rotation parameters (rope_parameters, one of its layer types, or rope_scaling) as a
// Rope.
#pragma once

#include <optional>

#include "encodings/hf_family.h"
#include "encodings/hf_keys.h"
#include "posenc/encodings/rope.h"

namespace posenc {

// Values from outside the map, at the top level of the file.
struct HfRopeContext {
  std::optional<double> theta;
  std::optional<double> partial;
  std::optional<std::int64_t> rotary_dim;
  std::optional<std::int64_t> original_max;
  std::optional<std::int64_t> max_position;
  PairLayout layout = PairLayout::kHalf;
  std::int64_t latent_offset =
      0;  // first channel that is rotated under latent attention (DeepSeek)
  bool latent = false;
  bool by_layer = false;  // the map is one of several, and overrides the top level without conflict
  HfFamily family;
  ModelShape shape;
};

// Reads what is common to all layers; throws for values of the wrong type or range.
HfRopeContext read_rope_context(const HfKeys& top, const HfFamily& family, const ModelShape& shape);

// The rotation that a map describes, checked against the shape; errors are signed with the map's
// scope.
Rope read_rope(const HfKeys& map, const HfRopeContext& context);

}  // namespace posenc
