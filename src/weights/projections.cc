#include "weights/projections.h"

#include <algorithm>
#include <array>

#include "weights/name_pattern.h"

namespace posenc::weights {
namespace {

struct Known {
  std::string_view pattern;
  Role role;
};

// query_key_value is grouped in GPT-NeoX and Falcon, concatenated in ChatGLM; the first of the three
// has a module name of its own.
constexpr std::array kKnown = {
    Known{"q_proj", Role::kQuery},
    Known{"q_b_proj", Role::kQuery},
    Known{"wq", Role::kQuery},
    Known{"to_q", Role::kQuery},
    Known{"self.query", Role::kQuery},
    Known{"k_proj", Role::kKey},
    Known{"wk", Role::kKey},
    Known{"to_k", Role::kKey},
    Known{"self.key", Role::kKey},
    Known{"kv_a_proj_with_mqa", Role::kLatentKey},
    Known{"q_norm", Role::kQueryNorm},
    Known{"q_layernorm", Role::kQueryNorm},
    Known{"k_norm", Role::kKeyNorm},
    Known{"k_layernorm", Role::kKeyNorm},
    Known{"attention.query_key_value", Role::kGrouped},
    Known{"wqkv", Role::kGrouped},
    Known{"self_attn.qkv_proj", Role::kConcat},
    Known{"Wqkv", Role::kConcat},
    Known{"c_attn", Role::kConcat},
    Known{"query_key_value", Role::kUnclear},
    Known{"qkv_proj", Role::kUnclear},
};

// Towers of images and sound, and DeepSeek's indexer: heads and pairing of their own.
constexpr std::array<std::string_view, 9> kElsewhere = {
    "vision_tower", "vision_model", "vision_encoder", "visual",  "audio_tower",
    "audio_model",  "mm_projector", "image_encoder",  "indexer",
};

bool is_fused(Role role) {
  return role == Role::kConcat || role == Role::kGrouped || role == Role::kUnclear;
}

// The patterns that a user gave for this role, in place of the known ones.
const Patterns* given(const LayoutOptions& options, Role role) {
  if (role == Role::kQuery) return options.q.empty() ? nullptr : &options.q;
  if (role == Role::kKey) return options.k.empty() ? nullptr : &options.k;
  if (is_fused(role)) return options.fused.empty() ? nullptr : &options.fused;
  return nullptr;
}

Part part_of(std::string_view rest, Role role) {
  constexpr std::array<std::string_view, 5> kRows = {"", "weight", "bias", "base_layer.weight",
                                                     "base_layer.bias"};
  constexpr std::array<std::string_view, 3> kScales = {"weight_scale", "weight_scale_inv",
                                                       "weight_zero_point"};
  constexpr std::array<std::string_view, 3> kInputs = {"input_scale", "input_zero_point",
                                                       "activation_scale"};
  const auto among = [&](const auto& names) {
    return std::find(names.begin(), names.end(), rest) != names.end();
  };
  const bool norm = role == Role::kQueryNorm || role == Role::kKeyNorm;
  if (among(kRows) || rest.starts_with("lora_B") || rest.starts_with("lora_magnitude_vector")) {
    return Part::kRows;
  }
  if (norm && rest.starts_with("norms.")) return Part::kRows;  // StableLM: one norm per head
  if (among(kScales)) return Part::kScale;
  if (among(kInputs) || rest.starts_with("lora_A")) return Part::kInputs;
  return Part::kUnknown;
}

std::optional<Belonging> by_pattern(std::string_view name, const Patterns& patterns, Role role) {
  const auto rest = rest_after(patterns, name);
  if (!rest) return std::nullopt;
  return Belonging{role, part_of(*rest, role), *rest};
}

}  // namespace

std::string_view role_name(Role role) {
  switch (role) {
    case Role::kQuery:
      return "q";
    case Role::kKey:
      return "k";
    case Role::kQueryNorm:
      return "q norm";
    case Role::kKeyNorm:
      return "k norm";
    case Role::kLatentKey:
      return "latent k";
    case Role::kConcat:
      return "fused qkv, concat";
    case Role::kGrouped:
      return "fused qkv, grouped";
    case Role::kUnclear:
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
  const Role fused = !options.order                          ? Role::kUnclear
                     : *options.order == FusedOrder::kConcat ? Role::kConcat
                                                             : Role::kGrouped;
  if (auto found = by_pattern(name, options.q, Role::kQuery)) return found;
  if (auto found = by_pattern(name, options.k, Role::kKey)) return found;
  if (auto found = by_pattern(name, options.fused, fused)) return found;
  for (const Known& known : kKnown) {
    if (given(options, known.role) != nullptr) continue;
    const auto rest = rest_after(known.pattern, name);
    if (!rest) continue;
    const Role role = is_fused(known.role) && options.order ? fused : known.role;
    return Belonging{role, part_of(*rest, role), *rest};
  }
  return std::nullopt;
}

}  // namespace posenc::weights
