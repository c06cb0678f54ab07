#include "weights/projections.h"

#include <algorithm>
#include <array>

#include "weights/name_pattern.h"

namespace posenc::weights {
namespace {

struct Known {
  std::string_view pattern;
  ProjectionRole role;
};

// query_key_value is grouped in GPT-NeoX and Falcon, concatenated in ChatGLM; the first of the three
// has its own module name.
constexpr std::array kKnown = {
    Known{"q_proj", ProjectionRole::kQuery},
    Known{"q_b_proj", ProjectionRole::kQuery},
    Known{"wq", ProjectionRole::kQuery},
    Known{"to_q", ProjectionRole::kQuery},
    Known{"self.query", ProjectionRole::kQuery},
    Known{"k_proj", ProjectionRole::kKey},
    Known{"wk", ProjectionRole::kKey},
    Known{"to_k", ProjectionRole::kKey},
    Known{"self.key", ProjectionRole::kKey},
    Known{"kv_a_proj_with_mqa", ProjectionRole::kLatentKey},
    Known{"q_norm", ProjectionRole::kQueryNorm},
    Known{"q_layernorm", ProjectionRole::kQueryNorm},
    Known{"k_norm", ProjectionRole::kKeyNorm},
    Known{"k_layernorm", ProjectionRole::kKeyNorm},
    Known{"attention.query_key_value", ProjectionRole::kGrouped},
    Known{"wqkv", ProjectionRole::kGrouped},
    Known{"self_attn.qkv_proj", ProjectionRole::kConcat},
    Known{"Wqkv", ProjectionRole::kConcat},
    Known{"c_attn", ProjectionRole::kConcat},
    Known{"query_key_value", ProjectionRole::kUnclear},
    Known{"qkv_proj", ProjectionRole::kUnclear},
};

// Towers of images and sound, and DeepSeek's indexer: with other heads and another layout.
constexpr std::array<std::string_view, 9> kElsewhere = {
    "vision_tower", "vision_model", "vision_encoder", "visual",  "audio_tower",
    "audio_model",  "mm_projector", "image_encoder",  "indexer",
};

bool is_fused(ProjectionRole role) {
  return role == ProjectionRole::kConcat || role == ProjectionRole::kGrouped ||
         role == ProjectionRole::kUnclear;
}

// The patterns that a user gave for this role, in place of the known ones.
const Patterns* given(const LayoutOptions& options, ProjectionRole role) {
  if (role == ProjectionRole::kQuery) return options.q.empty() ? nullptr : &options.q;
  if (role == ProjectionRole::kKey) return options.k.empty() ? nullptr : &options.k;
  if (is_fused(role)) return options.fused.empty() ? nullptr : &options.fused;
  return nullptr;
}

Part part_of(std::string_view rest, ProjectionRole role) {
  constexpr std::array<std::string_view, 5> kRows = {"", "weight", "bias", "base_layer.weight",
                                                     "base_layer.bias"};
  constexpr std::array<std::string_view, 3> kScales = {"weight_scale", "weight_scale_inv",
                                                       "weight_zero_point"};
  constexpr std::array<std::string_view, 3> kInputs = {"input_scale", "input_zero_point",
                                                       "activation_scale"};
  const auto among = [&](const auto& names) {
    return std::find(names.begin(), names.end(), rest) != names.end();
  };
  const bool norm = role == ProjectionRole::kQueryNorm || role == ProjectionRole::kKeyNorm;
  if (among(kRows) || rest.starts_with("lora_B") || rest.starts_with("lora_magnitude_vector")) {
    return Part::kRows;
  }
  if (norm && rest.starts_with("norms.")) return Part::kRows;  // StableLM: one norm per head
  if (among(kScales)) return Part::kScale;
  if (among(kInputs) || rest.starts_with("lora_A")) return Part::kInputs;
  return Part::kUnknown;
}

std::optional<Belonging> by_pattern(std::string_view name, const Patterns& patterns,
                                    ProjectionRole role) {
  const auto rest = rest_after(patterns, name);
  if (!rest) return std::nullopt;
  return Belonging{role, part_of(*rest, role), *rest};
}

}  // namespace

std::string_view role_name(ProjectionRole role) {
  switch (role) {
    case ProjectionRole::kQuery:
      return "q";
    case ProjectionRole::kKey:
      return "k";
    case ProjectionRole::kQueryNorm:
      return "q norm";
    case ProjectionRole::kKeyNorm:
      return "k norm";
    case ProjectionRole::kLatentKey:
      return "latent k";
    case ProjectionRole::kConcat:
      return "fused qkv, concat";
    case ProjectionRole::kGrouped:
      return "fused qkv, grouped";
    case ProjectionRole::kUnclear:
      break;
  }
  return "fused qkv";
}

bool is_kept(std::string_view name, const Patterns& keep) {
  const auto elsewhere = [&](std::string_view part) { return rest_after(part, name).has_value(); };
  return std::any_of(kElsewhere.begin(), kElsewhere.end(), elsewhere) ||
         rest_after(keep, name).has_value();
}

std::optional<Belonging> belonging(std::string_view name, const LayoutOptions& options) {
  if (is_kept(name, options.keep)) return std::nullopt;
  const ProjectionRole fused = !options.order                          ? ProjectionRole::kUnclear
                               : *options.order == FusedOrder::kConcat ? ProjectionRole::kConcat
                                                                       : ProjectionRole::kGrouped;
  if (auto found = by_pattern(name, options.q, ProjectionRole::kQuery)) return found;
  if (auto found = by_pattern(name, options.k, ProjectionRole::kKey)) return found;
  if (auto found = by_pattern(name, options.fused, fused)) return found;
  for (const Known& known : kKnown) {
    if (given(options, known.role) != nullptr) continue;
    const auto rest = rest_after(known.pattern, name);
    if (!rest) continue;
    const ProjectionRole role = is_fused(known.role) && options.order ? fused : known.role;
    return Belonging{role, part_of(*rest, role), *rest};
  }
  return std::nullopt;
}

}  // namespace posenc::weights
