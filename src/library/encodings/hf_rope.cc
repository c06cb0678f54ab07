#include "encodings/hf_rope.h"

#include <fmt/format.h>

#include <numeric>

#include "encodings/hf_schedule.h"

namespace posenc {
namespace {

constexpr FieldRule kThetaRule{.doc = "", .min = 1, .max = 1e30, .open_min = true};
constexpr FieldRule kPartialRule{.doc = "", .min = 0, .max = 1, .open_min = true};
constexpr FieldRule kLengthRule{.doc = "", .min = 1, .max = 1e15};
constexpr FieldRule kRotaryDimRule{.doc = "", .min = 2, .max = 1 << 20, .even = true};
constexpr FieldRule kSectionRule{.doc = "", .min = 0, .max = 1 << 20};

// As the file has it: 500000 and not 5e+05.
std::string shown(double number) { return describe(write_field(number)); }

// A number that may be inside the map or at the top level of the file. Two different values are an error.
std::optional<double> inside_or_top_level(const HfKeys& map, const char* key, const FieldRule& rule,
                                          std::optional<double> top_level, bool by_layer) {
  const auto inside = map.get<double>(key, rule);
  if (inside && top_level && *inside != *top_level && !by_layer) {
    throw map.error(ErrorKind::kConflict, key,
                    fmt::format("must agree with the top level ({})", shown(*top_level)),
                    shown(*inside), "keep one of the two");
  }
  return inside ? inside : top_level;
}

std::int64_t rotated_channels(const HfKeys& map, const HfRopeContext& context, double partial) {
  const auto head_dim = static_cast<double>(context.shape.head_dim);
  const auto dim = static_cast<std::int64_t>(head_dim * partial);
  if (dim >= 2 && dim % 2 == 0) return dim;
  throw map.error(ErrorKind::kOutOfRange,
                  partial == 1.0 ? "head_dim" : "partial_rotary_factor * head_dim",
                  "must be even and at least 2", std::to_string(dim));
}

// Which channels are rotated: all, the first, the last, or those that latent attention reserves for it.
void read_window(const HfKeys& map, const HfRopeContext& context, Rope& rope) {
  const auto partial = inside_or_top_level(map, "partial_rotary_factor", kPartialRule,
                                           context.partial, context.by_layer);
  if (auto* proportional = std::get_if<ProportionalSchedule>(&rope.schedule)) {
    proportional->partial_rotary_factor = partial.value_or(1.0);
    rotated_channels(map, context, 1.0);
    return;
  }
  if (context.latent) {
    rope.dim_offset = context.latent_offset;
    rope.rotary_dim = *context.rotary_dim;
    return;
  }
  std::int64_t dim = context.rotary_dim.value_or(0);
  if (dim == 0 || partial) {
    dim = rotated_channels(map, context, partial.value_or(context.family.partial));
  }
  if (context.rotary_dim && *context.rotary_dim != dim) {
    throw map.error(ErrorKind::kConflict, "partial_rotary_factor",
                    fmt::format("must give rotary_dim ({})", *context.rotary_dim),
                    std::to_string(dim), "keep one of the two");
  }
  rope.rotary_dim = dim == context.shape.head_dim ? 0 : dim;
  if (context.family.trailing) rope.dim_offset = context.shape.head_dim - dim;
}

Axes read_axes(const HfKeys& map, const HfRopeContext& context, std::int64_t pairs) {
  const bool interleaved = map.any<bool>({"mrope_interleaved", "interleaved"}).value_or(false);
  const Value* value = map.find("mrope_section");
  if (value == nullptr) {
    if (!interleaved && map.get<std::string>("type") != "mrope") return SingleAxis{};
    throw map.error(ErrorKind::kMissingKey, "mrope_section", "is required", "",
                    "add the pairs per axis, such as [16, 24, 24]");
  }
  if (value->get_if<Value::List>() == nullptr) {
    throw map.error(ErrorKind::kWrongType, "mrope_section", "must be a list", describe(*value));
  }
  if (context.family.model_type.starts_with("ernie4_5_vl")) {
    throw map.error(ErrorKind::kUnsupported, "mrope_section",
                    "must not be ERNIE's, whose order of axes is not supported", describe(*value));
  }
  auto sections = *map.get<std::vector<std::int64_t>>("mrope_section", kSectionRule);
  const std::int64_t sum = std::accumulate(sections.begin(), sections.end(), std::int64_t{0});
  if (sum != pairs) {
    throw map.error(ErrorKind::kWrongLength, "mrope_section",
                    fmt::format("must add up to the rotated pairs ({})", pairs),
                    fmt::format("a sum of {}", sum));
  }
  if (interleaved) return MropeInterleavedAxes{std::move(sections)};
  return MropeAxes{std::move(sections)};
}

// The encoding's own checks (lengths of lists, fields that do not fit together), signed as the
// file's.
void check_rope(const HfKeys& map, const Rope& rope, const ModelShape& shape) {
  try {
    validate(rope, shape);
  } catch (const Error& problem) {
    throw map.error(problem.kind(), problem.key(), problem.rule(), problem.value(), problem.hint());
  }
}

}  // namespace

HfRopeContext read_rope_context(const HfKeys& top, const HfFamily& family,
                                const ModelShape& shape) {
  HfRopeContext context;
  context.family = family;
  context.shape = shape;
  context.layout = family.layout;
  context.theta =
      top.any<double>({"rope_theta", "rotary_emb_base", "global_rope_theta"}, kThetaRule);
  if (const auto attention = top.child("attn_config"); attention && !context.theta) {
    context.theta = attention->get<double>("rope_theta", kThetaRule);
  }
  context.partial =
      top.any<double>({"partial_rotary_factor", "rotary_pct", "rope_pct"}, kPartialRule);
  context.rotary_dim = top.get<std::int64_t>("rotary_dim", kRotaryDimRule);
  context.original_max = top.get<std::int64_t>("original_max_position_embeddings", kLengthRule);
  context.max_position = top.first<std::int64_t>(
      {"max_position_embeddings", "n_positions", "max_seq_len"}, kLengthRule);
  if (const auto slice = top.get<std::int64_t>("qk_rope_head_dim", kRotaryDimRule);
      slice && top.find("qk_nope_head_dim") != nullptr) {
    context.latent = true;
    context.rotary_dim = slice;
    context.latent_offset = shape.head_dim - *slice;
  }
  if (const auto pairs = top.get<bool>("rope_interleave")) {
    context.layout = *pairs ? PairLayout::kInterleaved : PairLayout::kHalf;
  }
  return context;
}

Rope read_rope(const HfKeys& map, const HfRopeContext& context) {
  Rope rope;
  rope.schedule = read_hf_schedule(
      map, {context.original_max, context.max_position, context.latent, context.by_layer});
  rope.theta = {inside_or_top_level(map, "rope_theta", kThetaRule, context.theta, context.by_layer)
                    .value_or(context.family.theta)};
  rope.layout = context.layout;
  read_window(map, context, rope);
  const std::int64_t dim = rope.rotary_dim == 0 ? context.shape.head_dim : rope.rotary_dim;
  rope.axes = read_axes(map, context, dim / 2);
  check_rope(map, rope, context.shape);
  return rope;
}

}  // namespace posenc
