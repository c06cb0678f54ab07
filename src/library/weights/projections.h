// Finds the tensors of q and k in a checkpoint by their names, and their companions (biases, scales) with the
// same rows.
#pragma once

#include <optional>
#include <string_view>

#include "posenc/weights/convert.h"

namespace posenc::weights {

enum class ProjectionRole {
  kQuery,
  kKey,
  kQueryNorm,  // a norm over q before the rotation: one number per channel, of one head or of all
  kKeyNorm,
  kLatentKey,  // DeepSeek: the last rotary_dim rows are the key that all heads share
  kConcat,
  kGrouped,
  kUnclear,  // holds q, k and v, in an order that the name does not tell
};
std::string_view role_name(ProjectionRole role);

// What a tensor under a projection's name is to its rows.
enum class Part {
  kRows,    // has them as its first dimension: weight, bias, LoRA's B
  kScale,   // one number for all, or one per row
  kInputs,  // knows nothing of them: LoRA's A
  kUnknown,
};

struct Belonging {
  ProjectionRole role = ProjectionRole::kQuery;
  Part part = Part::kRows;
  std::string_view rest;  // of the tensor's name after the projection's
};

// What the tensor belongs to, or nothing when it is to be copied as it is.
std::optional<Belonging> belonging(std::string_view name, const LayoutOptions& options);

// Other modalities of a model, which have other heads.
bool is_kept(std::string_view name, const Patterns& keep);

}  // namespace posenc::weights
