#include "encodings/other_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "posenc/core/error.h"
#include "posenc/encodings/encoding.h"

namespace posenc {
namespace {

using Pair = std::pair<std::string_view, std::string_view>;

// Each name as normalised() writes it, then the name of an encoding, of a schedule or of axes.
constexpr std::array<Pair, 57> kOtherNames = {{
    {"no_pe", "none"},
    {"no_position", "none"},
    {"nope", "none"},
    {"absolute", "learned"},
    {"ape", "learned"},
    {"learnable_absolute", "learned"},
    {"learned_absolute", "learned"},
    {"wpe", "learned"},
    {"fourier", "sinusoidal"},
    {"sin_cos", "sinusoidal"},
    {"sincos", "sinusoidal"},
    {"sine", "sinusoidal"},
    {"sinusoid", "sinusoidal"},
    {"rotary", "rope"},
    {"rotary_embedding", "rope"},
    {"rotary_emb", "rope"},
    {"path_attention", "path"},
    {"linear_bias", "alibi"},
    {"relative_bias", "t5"},
    {"t5_bias", "t5"},
    {"t5_relative_bias", "t5"},
    {"kerple_log", "kerple"},
    {"kerple_power", "kerple"},
    {"relative_table", "relative"},
    {"rel_pos_bias", "relative"},
    {"swin", "relative_2d"},
    {"deberta", "relative_query"},
    {"shaw", "relative_query"},
    {"transformer_xl", "relative_query"},
    {"contextual", "cope"},
    {"contextual_position", "cope"},
    {"forget", "fox"},
    {"forget_gate", "fox"},
    {"forgetting", "fox"},
    {"forgetting_attention", "fox"},
    {"forgetting_transformer", "fox"},
    {"attention_sink", "sink"},
    {"sinks", "sink"},
    {"softmax_one", "sink"},
    {"logit_softcap", "softcap"},
    {"logit_softcapping", "softcap"},
    {"soft_cap", "softcap"},
    {"stickbreaking", "stick_breaking"},
    {"dynamic_ntk", "dynamic"},
    {"llama_3", "llama3"},
    {"linear_scaling", "linear"},
    {"long_rope", "longrope"},
    {"ntk_aware", "ntk"},
    {"ntk_scaling", "ntk"},
    {"p_rope", "proportional"},
    {"pi", "linear"},
    {"position_interpolation", "linear"},
    {"prope", "proportional"},
    {"su", "longrope"},
    {"yarn_rope", "yarn"},
    {"m_rope", "mrope"},
    {"multimodal_rope", "mrope"},
}};

// "No-PE" is no_pe.
std::string normalised(std::string_view name) {
  std::string text(name);
  std::transform(text.begin(), text.end(), text.begin(), [](char c) {
    return c == '-' || c == '.' ? '_'
                                : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  });
  return text;
}

std::string with_required(const CatalogEntry& entry) {
  std::string arguments;
  for (const FieldDoc& field : entry.fields) {
    if (!field.rule.required) continue;
    arguments +=
        fmt::format("{}{}={}", arguments.empty() ? "" : ", ", field.name, field.rule.example);
  }
  return arguments.empty() ? std::string(entry.traits.name)
                           : fmt::format("{}({})", entry.traits.name, arguments);
}

}  // namespace

std::string example_spec(std::string_view name) {
  const auto find_in = [&](const std::vector<CatalogEntry>& entries) -> std::string {
    for (const CatalogEntry& entry : entries) {
      if (entry.traits.name == name) return with_required(entry);
    }
    return "";
  };
  if (std::string found = find_in(encoding_catalog()); !found.empty()) return found;
  if (const std::string found = find_in(schedule_catalog()); !found.empty()) {
    return "rope(schedule=" + found + ")";
  }
  const std::string axes = find_in(axes_catalog());
  return axes.empty() ? "" : "rope(axes=" + axes + ")";
}

std::string known_name(std::string_view other_name) {
  std::string name = normalised(other_name);
  if (!example_spec(name).empty()) return name;
  const auto* const found = std::find_if(kOtherNames.begin(), kOtherNames.end(),
                                         [&](const Pair& pair) { return pair.first == name; });
  return found == kOtherNames.end() ? "" : std::string(found->second);
}

std::string spec_instead_of(std::string_view other_name) {
  return example_spec(known_name(other_name));
}

void refuse_other_name(const Value& name, const FieldContext& context,
                       std::span<const std::string_view> known) {
  const auto* text = name.get_if<std::string>();
  if (text == nullptr || std::find(known.begin(), known.end(), *text) != known.end()) return;
  const std::string instead = spec_instead_of(*text);
  if (instead.empty()) return;
  throw Error(ErrorKind::kUnknownKey, {.scope = std::string(context.scope),
                                       .key = std::string(context.name),
                                       .rule = "must be a known name",
                                       .value = describe(name) + mark_text(name.mark()),
                                       .hint = fmt::format("did you mean '{}'?", instead)});
}

}  // namespace posenc
