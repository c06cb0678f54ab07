#include "encodings/hf_layers.h"

#include <algorithm>
#include <array>

#include "encodings/hf_rope.h"
#include "encodings/hf_schedule.h"

namespace posenc {
namespace {

constexpr std::string_view kFull = "full_attention";
constexpr std::string_view kSliding = "sliding_attention";
// Names under which transformers nests rotation parameters; a file's layer_types may add others.
constexpr std::array<std::string_view, 6> kLayerNames = {
    kFull, kSliding, "chunked_attention", "linear_attention", "main", "compress"};

bool known_layer(std::string_view name) {
  return std::find(kLayerNames.begin(), kLayerNames.end(), name) != kLayerNames.end();
}

// A map of layer types, not of parameters: one of its keys is a layer type or holds a map.
bool is_nested(const HfKeys& map) {
  return std::any_of(map.members().begin(), map.members().end(), [](const Member& member) {
    return known_layer(member.key) || member.value.get_if<Value::Map>() != nullptr;
  });
}

std::vector<std::string_view> layer_types(const HfKeys& top) {
  const Value* value = top.find("layer_types");
  if (value == nullptr) return {};
  const auto* list = value->get_if<Value::List>();
  if (list == nullptr) {
    throw top.error(ErrorKind::kWrongType, "layer_types", "must be a list", describe(*value));
  }
  std::vector<std::string_view> names;
  for (const Value& item : *list) {
    const auto* name = item.get_if<std::string>();
    if (name == nullptr) {
      throw top.error(ErrorKind::kWrongType, "layer_types", "must hold names", describe(item));
    }
    if (std::find(names.begin(), names.end(), *name) == names.end()) names.push_back(*name);
  }
  return names;
}

void check_layer_name(const HfKeys& map, const Member& entry,
                      const std::vector<std::string_view>& types) {
  if (!entry.value.is_null() && entry.value.get_if<Value::Map>() == nullptr) {
    throw map.error(ErrorKind::kWrongType, entry.key, "must be a map or null next to layer types",
                    describe(entry.value));
  }
  const bool listed = std::find(types.begin(), types.end(), entry.key) != types.end();
  if (listed || known_layer(entry.key) || (types.empty() && !is_rope_key(entry.key))) return;
  const std::vector<std::string_view> names =
      types.empty() ? std::vector<std::string_view>(kLayerNames.begin(), kLayerNames.end()) : types;
  throw map.error(ErrorKind::kUnknownKey, entry.key, "is not a layer type", "",
                  suggestion(entry.key, names));
}

// Transformers fails on the first layer whose type is not among the entries; say so at once.
void check_complete(const HfKeys& map, const std::vector<std::string_view>& types) {
  for (const std::string_view type : {kFull, kSliding}) {
    if (std::find(types.begin(), types.end(), type) == types.end() || map.mentions(type)) continue;
    throw map.error(ErrorKind::kMissingKey, type, "is required, since layer_types has it", "",
                    "add it, or null for no rotation");
  }
}

std::vector<HfLayer> nested_layers(const HfKeys& top, const HfKeys& map, HfRopeContext context) {
  const std::vector<std::string_view> types = layer_types(top);
  check_complete(map, types);
  const auto global_head_dim =
      top.get<std::int64_t>("global_head_dim", FieldRule{.doc = "", .min = 1, .max = 1 << 20});
  const ModelShape shape = context.shape;
  context.by_layer = true;
  std::vector<HfLayer> layers;
  for (const Member& entry : map.members()) {
    check_layer_name(map, entry, types);
    context.shape = shape;
    if (global_head_dim && entry.key == kFull) context.shape.head_dim = *global_head_dim;
    HfLayer layer{entry.key, {}, context.shape};
    if (!entry.value.is_null()) {
      const HfKeys inner(entry.value, map.scope() + "." + entry.key);
      layer.spec.encodings = {read_rope(inner, context)};
    }
    layers.push_back(std::move(layer));
  }
  return layers;
}

// The rotation of a flat file: one map, or none, or an old and a new one that say the same.
Rope flat_rope(const HfKeys& top, const HfRopeContext& context) {
  const auto parameters = top.child("rope_parameters");
  const auto scaling = top.child("rope_scaling");
  if (!parameters && !scaling) {
    const Value empty{Value::Data(Value::Map{})};
    return read_rope(HfKeys(empty, top.scope()), context);
  }
  Rope rope = read_rope(parameters ? *parameters : *scaling, context);
  if (!parameters || !scaling) return rope;
  HfRopeContext old_context = context;
  old_context.theta = rope.theta.front();
  old_context.by_layer = true;  // theta and the rotated channels of the new form take precedence
  const Rope old = read_rope(*scaling, old_context);
  if (old.schedule != rope.schedule || old.axes != rope.axes) {
    throw top.error(ErrorKind::kConflict, "rope_scaling", "must agree with rope_parameters",
                    describe(*top.find("rope_scaling")), "keep one of the two");
  }
  return rope;
}

HfLayer layer_of(std::string_view type, const Rope& rope, const ModelShape& shape) {
  return {std::string(type), Spec{{rope}}, shape};
}

// Gemma 3, ModernBERT and OLMo 3 in their older form: a separate base for sliding-window layers.
std::vector<HfLayer> windowed_layers(const HfKeys& top, const HfRopeContext& context,
                                     const Rope& full) {
  constexpr FieldRule kRule{.doc = "", .min = 1, .max = 1e30, .open_min = true};
  const HfFamily& family = context.family;
  Rope sliding = full;
  if (family.local != HfFamily::Local::kOwnThetaSameSchedule) sliding.schedule = DefaultSchedule{};
  if (const auto theta = top.any<double>({"rope_local_base_freq", "local_rope_theta"}, kRule)) {
    sliding.theta = {*theta};
  } else if (family.local_theta != 0 && !top.mentions("local_rope_theta")) {
    sliding.theta = {family.local_theta};  // a null local_rope_theta means: as the others
  }
  return {layer_of(kFull, full, context.shape), layer_of(kSliding, sliding, context.shape)};
}

struct Presence {
  bool rope = false;
  bool none = false;
};

// Llama 4 and SmolLM3 mark each layer by 1 (rotates) or 0, or leave every n-th one unrotated.
Presence rope_presence(const HfKeys& top, const HfFamily& family) {
  constexpr FieldRule kMarkRule{.doc = "", .min = 0, .max = 1};
  constexpr FieldRule kCountRule{.doc = "", .min = 1, .max = 1e6};
  const Value* marks = top.find("no_rope_layers");
  const auto* list = marks == nullptr ? nullptr : marks->get_if<Value::List>();
  if (marks != nullptr && list == nullptr) {
    throw top.error(ErrorKind::kWrongType, "no_rope_layers", "must be a list", describe(*marks));
  }
  if (list != nullptr && !list->empty()) {
    const auto values = *top.get<std::vector<std::int64_t>>("no_rope_layers", kMarkRule);
    return {std::find(values.begin(), values.end(), 1) != values.end(),
            std::find(values.begin(), values.end(), 0) != values.end()};
  }
  if (family.no_rope != HfFamily::NoRope::kByInterval) return {true, false};
  const auto every = top.get<std::int64_t>("no_rope_layer_interval", kCountRule).value_or(4);
  const auto layers = top.get<std::int64_t>("num_hidden_layers", kCountRule).value_or(every);
  return {every > 1, layers >= every};
}

std::vector<HfLayer> marked_layers(const Presence& presence, const Rope& rope,
                                   const ModelShape& shape) {
  std::vector<HfLayer> layers;
  const bool both = presence.rope && presence.none;
  if (presence.rope) layers.push_back(layer_of(both ? "rope" : "", rope, shape));
  if (presence.none) layers.push_back({both ? "no_rope" : "", {}, shape});
  return layers;
}

// Cohere 2 and EXAONE 4 rotate only where a window slides.
bool full_layers_unrotated(const HfKeys& top, const HfFamily& family) {
  if (family.no_rope != HfFamily::NoRope::kFullAttention) return false;
  return family.model_type != "exaone4" || top.find("sliding_window") != nullptr;
}

}  // namespace

std::vector<HfLayer> read_rope_layers(const HfKeys& top, const HfFamily& family,
                                      const ModelShape& shape) {
  const HfRopeContext context = read_rope_context(top, family, shape);
  if (const auto map = top.child("rope_parameters"); map && is_nested(*map)) {
    if (top.find("rope_scaling") != nullptr) {
      throw top.error(ErrorKind::kConflict, "rope_scaling",
                      "must be absent when rope_parameters is given by layer type",
                      describe(*top.find("rope_scaling")), "keep one of the two");
    }
    return nested_layers(top, *map, context);
  }
  const Rope rope = flat_rope(top, context);
  const bool local_theta =
      top.find("rope_local_base_freq") != nullptr || top.find("local_rope_theta") != nullptr;
  if (local_theta || family.local != HfFamily::Local::kSame) {
    return windowed_layers(top, context, rope);
  }
  if (full_layers_unrotated(top, family)) {
    return {layer_of(kSliding, rope, shape), {std::string(kFull), {}, shape}};
  }
  return marked_layers(rope_presence(top, family), rope, shape);
}

}  // namespace posenc
