#include "encodings/hf_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

namespace posenc {
namespace {

constexpr FieldRule kLengthRule{.doc = "", .min = 1, .max = 1e15};
constexpr FieldRule kAlphaRule{.doc = "", .min = 1, .max = 1e9};
constexpr FieldRule kMagnitudeRule{.doc = "", .min = 0, .max = 1e6, .open_min = true};

using KeyList = std::span<const std::string_view>;

// Understood, or known to be without effect, whatever the rope_type.
constexpr std::array<std::string_view, 11> kCommonKeys = {"rope_type",
                                                          "type",
                                                          "rope_theta",
                                                          "mrope_section",
                                                          "interleaved",
                                                          "partial_rotary_factor",
                                                          "mrope_interleaved",
                                                          "finetuned",
                                                          "original_max_position_embeddings",
                                                          "max_position_embeddings",
                                                          "llama_4_scaling_beta"};

constexpr std::array<std::string_view, 1> kFactorKey = {"factor"};
// Hunyuan's files say dynamic, and mean by alpha the fixed factor of NTK; the rest is without
// effect.
constexpr std::array<std::string_view, 6> kDynamicKeys = {"factor",    "alpha",  "beta_fast",
                                                          "beta_slow", "mscale", "mscale_all_dim"};
constexpr std::array<std::string_view, 8> kYarnKeys = {
    "factor",           "beta_fast",   "beta_slow", "truncate",
    "attention_factor", "attn_factor", "mscale",    "mscale_all_dim"};
constexpr std::array<std::string_view, 6> kLongRopeKeys = {
    "short_factor", "long_factor", "factor", "attention_factor", "short_mscale", "long_mscale"};
constexpr std::array<std::string_view, 3> kLlama3Keys = {"factor", "low_freq_factor",
                                                         "high_freq_factor"};

enum class RopeType { kDefault, kLinear, kDynamic, kYarn, kLongRope, kLlama3, kProportional };

// The first seven are the types, in order; the others are older names of one of them.
constexpr std::array<std::string_view, 10> kTypeNames = {
    "default", "linear",       "dynamic", "yarn",  "longrope",
    "llama3",  "proportional", "su",      "mrope", "deepseek_yarn"};

RopeType type_of_name(std::size_t index) {
  constexpr std::array<RopeType, 3> kAliases = {RopeType::kLongRope, RopeType::kDefault,
                                                RopeType::kYarn};
  return index < 7 ? static_cast<RopeType>(index) : kAliases[index - 7];
}

KeyList keys_of(RopeType type) {
  switch (type) {
    case RopeType::kDefault:
    case RopeType::kLinear:
    case RopeType::kProportional:
      return kFactorKey;
    case RopeType::kDynamic:
      return kDynamicKeys;
    case RopeType::kYarn:
      return kYarnKeys;
    case RopeType::kLongRope:
      return kLongRopeKeys;
    case RopeType::kLlama3:
      return kLlama3Keys;
  }
  return {};
}

bool contains(KeyList keys, std::string_view key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

RopeType read_rope_type(const HfKeys& map) {
  std::optional<RopeType> type;
  for (const std::string_view key : {"rope_type", "type"}) {
    const Value* value = map.find(key);
    if (value == nullptr) continue;
    const FieldRule rule;
    const std::size_t index = read_choice(*value, FieldContext{map.scope(), key, rule}, kTypeNames);
    if (type && *type != type_of_name(index)) throw map.contradiction("type", "rope_type");
    type = type_of_name(index);
  }
  return type.value_or(RopeType::kDefault);
}

void check_keys(const HfKeys& map, RopeType type) {
  const std::string_view type_name = kTypeNames[static_cast<std::size_t>(type)];
  std::vector<std::string_view> allowed(kCommonKeys.begin(), kCommonKeys.end());
  const KeyList own = keys_of(type);
  allowed.insert(allowed.end(), own.begin(), own.end());
  for (const Member& member : map.members()) {
    if (contains(allowed, member.key)) continue;
    if (!is_rope_key(member.key)) {
      throw map.error(ErrorKind::kUnknownKey, member.key, "is not a known key", "",
                      suggestion(member.key, allowed));
    }
    if (member.value.is_null()) continue;
    throw map.error(ErrorKind::kUnknownKey, member.key,
                    fmt::format("is not a key of rope_type {}", type_name), "",
                    "remove it, or change rope_type");
  }
}

// The arguments of a schedule: those of its keys that the map has, ready for more to be added.
Value::Map arguments_of(const HfKeys& map, KeyList keys) {
  Value::Map arguments;
  for (const std::string_view key : keys) {
    if (const Value* value = map.find(key)) arguments.push_back({std::string(key), *value});
  }
  return arguments;
}

void add_argument(Value::Map& arguments, const char* key, std::optional<std::int64_t> number) {
  if (number) arguments.push_back({key, Value(Value::Data(*number))});
}

std::optional<std::int64_t> original_length(const HfKeys& map, const HfScheduleContext& context) {
  const char* key = "original_max_position_embeddings";
  const auto inside = map.get<std::int64_t>(key, kLengthRule);
  if (inside && context.original_max && *inside != *context.original_max && !context.by_layer) {
    throw map.error(ErrorKind::kConflict, key,
                    fmt::format("must agree with the top level ({})", *context.original_max),
                    std::to_string(*inside), "keep one of the two");
  }
  return inside ? inside : context.original_max;
}

template <class Config>
Config bind_schedule(const HfKeys& map, Value::Map arguments) {
  return bind_config<Config>(Value(Value::Data(std::move(arguments))), map.scope());
}

Schedule read_dynamic(const HfKeys& map, const HfScheduleContext& context) {
  if (const auto alpha = map.get<double>("alpha", kAlphaRule)) return NtkSchedule{*alpha};
  Value::Map arguments = arguments_of(map, kFactorKey);
  if (!context.max_position) {
    throw map.error(ErrorKind::kMissingKey, "max_position_embeddings",
                    "is required by rope_type dynamic", "", "add it at the top level of the file");
  }
  add_argument(arguments, "max_position_embeddings", context.max_position);
  return bind_schedule<DynamicSchedule>(map, std::move(arguments));
}

Schedule read_yarn(const HfKeys& map, const HfScheduleContext& context) {
  Value::Map arguments = arguments_of(map, kYarnKeys);
  add_argument(arguments, "original_max_position_embeddings", original_length(map, context));
  auto yarn = bind_schedule<YarnSchedule>(map, std::move(arguments));
  yarn.softmax_mscale = context.latent && yarn.mscale_all_dim.value_or(0.0) != 0.0;
  return yarn;
}

// Phi-3.5-MoE gives the magnitude for short and for long sequences; the schedule has one for both.
void add_phimoe_magnitude(const HfKeys& map, Value::Map& arguments) {
  const auto shorter = map.get<double>("short_mscale", kMagnitudeRule);
  const auto longer = map.get<double>("long_mscale", kMagnitudeRule);
  if (!shorter && !longer) return;
  if (shorter != longer || map.find("attention_factor") != nullptr) {
    throw map.error(ErrorKind::kUnsupported, "short_mscale",
                    "must equal long_mscale, and excludes attention_factor",
                    number_text(shorter.value_or(0.0)));
  }
  arguments.push_back({"attention_factor", Value(Value::Data(*shorter))});
}

Schedule read_longrope(const HfKeys& map, const HfScheduleContext& context) {
  for (const char* key : {"short_factor", "long_factor"}) {
    const Value* list = map.find(key);
    if (list == nullptr || list->get_if<Value::List>() != nullptr) continue;
    throw map.error(ErrorKind::kWrongType, key, "must be a list of numbers", describe(*list));
  }
  Value::Map arguments = arguments_of(map, KeyList(kLongRopeKeys).first(4));
  add_phimoe_magnitude(map, arguments);
  add_argument(arguments, "original_max_position_embeddings", original_length(map, context));
  add_argument(arguments, "max_position_embeddings", context.max_position);
  return bind_schedule<LongRopeSchedule>(map, std::move(arguments));
}

Schedule read_llama3(const HfKeys& map, const HfScheduleContext& context) {
  Value::Map arguments = arguments_of(map, kLlama3Keys);
  add_argument(arguments, "original_max_position_embeddings", original_length(map, context));
  return bind_schedule<Llama3Schedule>(map, std::move(arguments));
}

Schedule read_default(const HfKeys& map) {
  const auto factor = map.get<double>("factor");
  if (factor && *factor != 1.0) {
    throw map.error(ErrorKind::kConflict, "factor", "must be absent or 1 when rope_type is default",
                    number_text(*factor), "set rope_type");
  }
  return DefaultSchedule{};
}

}  // namespace

bool is_rope_key(std::string_view key) {
  const std::array<KeyList, 6> lists = {kCommonKeys, kFactorKey,    kDynamicKeys,
                                        kYarnKeys,   kLongRopeKeys, kLlama3Keys};
  return std::any_of(lists.begin(), lists.end(), [&](KeyList keys) { return contains(keys, key); });
}

Schedule read_hf_schedule(const HfKeys& map, const HfScheduleContext& context) {
  const RopeType type = read_rope_type(map);
  check_keys(map, type);
  switch (type) {
    case RopeType::kDefault:
      return read_default(map);
    case RopeType::kLinear:
      return bind_schedule<LinearSchedule>(map, arguments_of(map, kFactorKey));
    case RopeType::kDynamic:
      return read_dynamic(map, context);
    case RopeType::kYarn:
      return read_yarn(map, context);
    case RopeType::kLongRope:
      return read_longrope(map, context);
    case RopeType::kLlama3:
      return read_llama3(map, context);
    case RopeType::kProportional:
      return bind_schedule<ProportionalSchedule>(map, arguments_of(map, kFactorKey));
  }
  return DefaultSchedule{};
}

}  // namespace posenc
