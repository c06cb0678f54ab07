#include "posenc/encodings/rotary.h"

#include <fmt/format.h>

#include <cmath>

#include "encodings/shape_checks.h"

namespace posenc {
namespace {

Error shape_error(std::string_view scope, ErrorKind kind, const std::string& key,
                  const std::string& rule, std::int64_t value) {
  return {kind,
          {.scope = std::string(scope),
           .key = key,
           .rule = rule,
           .value = std::to_string(value),
           .hint = ""}};
}

// The number of rotated channels, after all checks of the fields.
template <class Config>
std::int64_t checked_rotary_dim(const Config& config, const ModelShape& shape) {
  const std::string_view scope = Config::kTraits.name;
  require_positive(scope, "head_dim", shape.head_dim);
  require_positive(scope, "heads", shape.heads);
  const bool whole = config.rotary_dim == 0;
  const std::int64_t dim = whole ? shape.head_dim - config.dim_offset : config.rotary_dim;
  const char* key =
      whole ? (config.dim_offset > 0 ? "head_dim - dim_offset" : "head_dim") : "rotary_dim";
  if (dim <= 0 || config.dim_offset + dim > shape.head_dim) {
    throw shape_error(scope, ErrorKind::kConflict, "dim_offset + rotary_dim",
                      fmt::format("must be at most head_dim ({})", shape.head_dim),
                      config.dim_offset + config.rotary_dim);
  }
  if (dim % 2 != 0) {
    throw shape_error(scope, ErrorKind::kOutOfRange, key, "must be even", dim);
  }
  return dim;
}

void check_theta_groups(const Rope& config, const ModelShape& shape) {
  const auto groups = std::ssize(config.theta);
  if (groups > 0 && shape.heads % groups == 0) return;
  throw shape_error(
      "rope", ErrorKind::kWrongLength, "theta",
      fmt::format("must have one entry, or a number that divides the heads ({})", shape.heads),
      groups);
}

// All frequencies of one group of heads: a block per axis where axes have their own.
std::vector<double> group_frequencies(const Rope& config, const ModelShape& shape,
                                      const Lengths& lengths, double theta, Rotary& rotary) {
  std::vector<double> inv_freq;
  const bool one_block = rotary.axes.frequency_blocks.size() == 1;
  for (const std::int64_t block : rotary.axes.frequency_blocks) {
    const ScheduleInput input{theta, 2 * block, one_block ? shape.head_dim : 2 * block, lengths,
                              config.precision};
    const ScheduleOutput output = evaluate(config.schedule, input);
    inv_freq.insert(inv_freq.end(), output.inv_freq.begin(), output.inv_freq.end());
    rotary.attention_factor = output.attention_factor;
    rotary.softmax_factor = output.softmax_factor;
  }
  return inv_freq;
}

void apply_alpha(const Rope& config, std::span<const double> alpha, Rotary& rotary) {
  if (alpha.empty()) return;
  if (!std::holds_alternative<LearnableSchedule>(config.schedule)) {
    throw shape_error("rope", ErrorKind::kConflict, "alpha", "is only for schedule=learnable",
                      std::ssize(alpha));
  }
  if (alpha.size() != static_cast<std::size_t>(rotary.pairs())) {
    throw shape_error("rope", ErrorKind::kWrongLength, "alpha",
                      fmt::format("must have one entry per pair ({})", rotary.pairs()),
                      std::ssize(alpha));
  }
  for (std::vector<double>& group : rotary.inv_freq) {
    for (std::size_t p = 0; p < group.size(); ++p) group[p] *= std::exp(alpha[p]);
  }
}

template <class Config>
Rotary make_window(const Config& config, const ModelShape& shape) {
  Rotary rotary;
  rotary.head_dim = shape.head_dim;
  rotary.rotary_dim = checked_rotary_dim(config, shape);
  rotary.dim_offset = config.dim_offset;
  rotary.layout = config.layout;
  rotary.precision = config.precision;
  return rotary;
}

// (x, y) -> (x c - y s, x s + y c) on every pair.
void turn(const Rotary& rotary, std::span<const double> cos, std::span<const double> sin,
          double sign, std::span<double> head) {
  for (std::int64_t pair = 0; pair < rotary.pairs(); ++pair) {
    const auto [first, second] = rotary.channels(pair);
    const auto p = static_cast<std::size_t>(pair);
    const double x = head[first];
    const double y = head[second];
    const double s = sign * sin[p];
    head[first] = x * cos[p] - y * s;
    head[second] = x * s + y * cos[p];
  }
}

void check_same_geometry(const Rotary& from, const Rotary& to) {
  const bool same = from.head_dim == to.head_dim && from.rotary_dim == to.rotary_dim &&
                    from.dim_offset == to.dim_offset && from.layout == to.layout &&
                    from.groups() == to.groups() && from.axes.axis_of_pair == to.axes.axis_of_pair;
  if (same) return;
  throw Error(
      ErrorKind::kConflict,
      {.scope = "rerotate",
       .key = "to",
       .rule = "must have the head_dim, rotary_dim, dim_offset, layout, axes and groups of the "
               "encoding that rotated the keys",
       .value = "",
       .hint = "only the schedule, theta and positions may change"});
}

[[noreturn]] void refuse_with_input(const char* key, std::string rule, std::string value) {
  throw Error(ErrorKind::kConflict, {.scope = "rope",
                                     .key = key,
                                     .rule = std::move(rule),
                                     .value = std::move(value),
                                     .hint = "angles=position has all fields"});
}

// Fields that angles from an input leave without a meaning.
void check_angles(const Rope& config) {
  if (!config.reads_input()) {
    if (config.running) {
      throw Error(ErrorKind::kConflict, {.scope = "rope",
                                         .key = "running",
                                         .rule = "must be false with angles=position",
                                         .value = "true",
                                         .hint = "set angles=input or angles=input_position"});
    }
    return;
  }
  const std::string angles(enum_name(config.angles));
  if (!std::holds_alternative<SingleAxis>(config.axes)) {
    refuse_with_input("axes", "must be single with angles=" + angles, "another");
  }
  const bool learnable = std::holds_alternative<LearnableSchedule>(config.schedule);
  const bool is_default = std::holds_alternative<DefaultSchedule>(config.schedule);
  if (learnable || (config.angles == Rope::Angles::kInput && !is_default)) {
    refuse_with_input("schedule", "must be default with angles=" + angles, "another");
  }
}

}  // namespace

void validate(const Rope& config, const ModelShape& shape) {
  make_rotary(config, shape, Lengths{});
  check_angles(config);
}
void validate(const Xpos& config, const ModelShape& shape) {
  make_rotary(config, shape, Lengths{});
}

std::vector<ParameterInfo> parameters(const Rope& config, const ModelShape& shape) {
  if (!std::holds_alternative<LearnableSchedule>(config.schedule)) return {};
  return {{"alpha", {checked_rotary_dim(config, shape) / 2}, Init{}}};
}
std::vector<InputInfo> token_inputs(const Rope& config, const ModelShape& shape) {
  if (!config.reads_input()) return {};
  const bool per_pair = config.angles == Rope::Angles::kInput;
  return {{.name = per_pair ? "angles" : "position",
           .heads = InputInfo::Heads::kKey,
           .channels = per_pair ? checked_rotary_dim(config, shape) / 2 : 1,
           .float32 = true,
           .projection = "angle_proj",
           .activation = InputInfo::Activation::kNone,
           .readers = {.own_query = true, .sums = config.running}}};
}
std::vector<ParameterInfo> parameters(const Xpos& /*config*/, const ModelShape& /*shape*/) {
  return {};
}

Rotary make_rotary(const Rope& config, const ModelShape& shape, const Lengths& lengths,
                   std::span<const double> alpha) {
  Rotary rotary = make_window(config, shape);
  check_theta_groups(config, shape);
  rotary.inverse = config.inverse;
  rotary.axes = plan_axes(config.axes, rotary.pairs());
  for (const double theta : config.theta) {
    rotary.inv_freq.push_back(group_frequencies(config, shape, lengths, theta, rotary));
  }
  apply_alpha(config, alpha, rotary);
  return rotary;
}

Rope Rope::at(const Lengths& lengths) const {
  Rope fixed = *this;
  fixed.schedule = at_length(schedule, lengths);
  return fixed;
}
Xpos Xpos::at(const Lengths& lengths) const {
  Xpos fixed = *this;
  fixed.center = static_cast<double>(lengths.sequence / 2);
  return fixed;
}

Rotary make_rotary(const Xpos& config, const ModelShape& shape, const Lengths& lengths) {
  Rotary rotary = make_window(config, shape);
  rotary.axes = plan_axes(SingleAxis{}, rotary.pairs());
  const ScheduleInput input{config.theta, rotary.rotary_dim, shape.head_dim, lengths,
                            config.precision};
  rotary.inv_freq = {evaluate(DefaultSchedule{}, input).inv_freq};
  rotary.scale_base = config.scale_base;
  rotary.center = config.center ? *config.center : *config.at(lengths).center;
  for (std::int64_t p = 0; p < rotary.pairs(); ++p) {
    const double share = 2.0 * static_cast<double>(p) / static_cast<double>(rotary.rotary_dim);
    rotary.log_zeta.push_back(std::log((share + config.gamma) / (1.0 + config.gamma)));
  }
  return rotary;
}

std::array<std::size_t, 2> Rotary::channels(std::int64_t pair) const {
  const auto start = static_cast<std::size_t>(dim_offset);
  const auto p = static_cast<std::size_t>(pair);
  if (layout == PairLayout::kInterleaved) return {start + 2 * p, start + 2 * p + 1};
  return {start + p, start + p + static_cast<std::size_t>(pairs())};
}

double Rotary::angle(std::int64_t group, std::int64_t pair, std::int64_t position) const {
  const double frequency = inv_freq[group][pair];
  double angle = static_cast<double>(position) * frequency;
  if (precision == Precision::kHf) {
    angle = static_cast<double>(static_cast<float>(position) * static_cast<float>(frequency));
  }
  return inverse ? -angle : angle;
}

double Rotary::magnitude(Role role, std::int64_t pair, std::int64_t position) const {
  if (log_zeta.empty()) return attention_factor;
  const double power = (static_cast<double>(position) - center) / scale_base;
  const double sign = role == Role::kQuery ? 1.0 : -1.0;
  return attention_factor * std::exp(sign * power * log_zeta[pair]);
}

CosSin rotary_entry(const Rotary& rotary, Role role, std::int64_t group, std::int64_t pair,
                    std::int64_t position) {
  const double angle = rotary.angle(group, pair, position);
  const double magnitude = rotary.magnitude(role, pair, position);
  return {magnitude * std::cos(angle), magnitude * std::sin(angle)};
}

void rotary_row(const Rotary& rotary, Role role, std::int64_t group,
                std::span<const std::int64_t> position, std::span<double> cos,
                std::span<double> sin) {
  for (const std::int64_t n : position) require_exact_position("rope", "positions", n);
  for (std::size_t p = 0; p < cos.size(); ++p) {
    const std::int64_t n = position[rotary.axes.axis_of_pair[p]];
    const CosSin entry = rotary_entry(rotary, role, group, static_cast<std::int64_t>(p), n);
    cos[p] = entry.cos;
    sin[p] = entry.sin;
  }
}

void rotate(const Rotary& rotary, std::span<const double> cos, std::span<const double> sin,
            std::span<double> head) {
  turn(rotary, cos, sin, 1.0, head);
}

void rotate_transposed(const Rotary& rotary, std::span<const double> cos,
                       std::span<const double> sin, std::span<double> head) {
  turn(rotary, cos, sin, -1.0, head);
}

void rerotate(const Rotary& from, std::span<const std::int64_t> from_position, const Rotary& to,
              std::span<const std::int64_t> to_position, std::int64_t group, std::span<double> key,
              RerotateMagnitude magnitude) {
  check_same_geometry(from, to);
  for (const auto& positions : {from_position, to_position}) {
    for (const std::int64_t n : positions) require_exact_position("rerotate", "positions", n);
  }
  const double scale =
      magnitude == RerotateMagnitude::kTarget ? 1.0 : from.attention_factor / to.attention_factor;
  std::vector<double> cos(from.pairs());
  std::vector<double> sin(cos.size());
  for (std::int64_t pair = 0; pair < from.pairs(); ++pair) {
    const auto p = static_cast<std::size_t>(pair);
    const auto axis = static_cast<std::size_t>(from.axes.axis_of_pair[p]);
    const double angle =
        to.angle(group, pair, to_position[axis]) - from.angle(group, pair, from_position[axis]);
    const double ratio = scale * to.magnitude(Role::kKey, pair, to_position[axis]) /
                         from.magnitude(Role::kKey, pair, from_position[axis]);
    cos[p] = ratio * std::cos(angle);
    sin[p] = ratio * std::sin(angle);
  }
  turn(from, cos, sin, 1.0, key);
}

void rerotate(const Rotary& rotary, std::int64_t delta, std::int64_t group, std::span<double> key) {
  const std::vector<std::int64_t> zero(rotary.axes.axes, 0);
  const std::vector<std::int64_t> moved(zero.size(), delta);
  rerotate(rotary, zero, rotary, moved, group, key);
}

}  // namespace posenc
