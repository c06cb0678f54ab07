// Random configs drawn through the field list itself: whatever a field allows, a test will try.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <variant>

#include "core/bind.h"
#include "posenc/encodings/spec.h"

namespace posenc::testing {

class RandomFields {
 public:
  explicit RandomFields(Rng& rng) : rng_(rng) {}

  template <class Field>
  void operator()(std::string_view /*name*/, Field& field, const FieldRule& rule) {
    if (rule.required || rng_.uniform() < 0.6) draw(field, rule);
  }

 private:
  void draw(bool& field, const FieldRule& /*rule*/) { field = rng_.uniform() < 0.5; }
  void draw(std::int64_t& field, const FieldRule& rule) {
    field = static_cast<std::int64_t>(number(rule));
    if (rule.even) field -= field % 2;
    field = std::max(field, static_cast<std::int64_t>(std::max(rule.min, -1e6)));
  }
  void draw(double& field, const FieldRule& rule) { field = number(rule); }
  void draw(std::optional<double>& field, const FieldRule& rule) { field = number(rule); }
  void draw(std::vector<double>& field, const FieldRule& rule) {
    field.resize(static_cast<std::size_t>(rng_.integer(1, 4)));
    for (double& x : field) x = number(rule);
  }
  void draw(std::vector<std::int64_t>& field, const FieldRule& rule) {
    field.resize(static_cast<std::size_t>(rng_.integer(1, 4)));
    for (std::int64_t& x : field) draw(x, rule);
  }
  template <NamedEnum E>
  void draw(E& field, const FieldRule& /*rule*/) {
    field = static_cast<E>(rng_.integer(0, static_cast<std::int64_t>(enum_names(E{}).size()) - 1));
  }
  template <class... Configs>
  void draw(std::variant<Configs...>& field, const FieldRule& /*rule*/) {
    const std::array<std::variant<Configs...>, sizeof...(Configs)> all = {Configs{}...};
    field = all[static_cast<std::size_t>(rng_.integer(0, sizeof...(Configs) - 1))];
    std::visit([&](auto& config) { std::decay_t<decltype(config)>::visit_fields(config, *this); },
               field);
  }

  // Spread over magnitudes, whole as often as not, inside the rule.
  double number(const FieldRule& rule) {
    const double low = std::max(rule.min, -1e6);
    const double high = std::min(rule.max, 1e6);
    double x = low + (high - low) * std::pow(rng_.uniform(), 4.0);
    if (rng_.uniform() < 0.5) x = std::floor(x);
    x = std::clamp(x, low, high);
    return rule.open_min && x <= rule.min ? std::min(rule.min + 0.25, high) : x;
  }

  Rng& rng_;
};

inline Encoding random_encoding(Rng& rng) {
  const std::vector<CatalogEntry> all = encoding_catalog();
  const auto index =
      static_cast<std::size_t>(rng.integer(0, static_cast<std::int64_t>(all.size()) - 1));
  Encoding encoding = default_encoding(all[index].traits.name);
  RandomFields fields(rng);
  std::visit([&](auto& e) { std::decay_t<decltype(e)>::visit_fields(e, fields); }, encoding);
  if (auto* rope = std::get_if<Rope>(&encoding)) {
    if (rope->reads_input()) {  // leaves these without a meaning
      rope->schedule = DefaultSchedule{};
      rope->axes = SingleAxis{};
    } else {
      rope->running = false;
    }
  }
  return encoding;
}

// A sink and a stick do not go together.
inline void keep_one_normaliser(Spec& spec) {
  bool stick = false;
  std::erase_if(spec.encodings, [&](const Encoding& e) {
    const bool breaks = std::holds_alternative<StickBreaking>(e);
    const bool again = breaks && stick;
    stick = stick || breaks;
    return again;
  });
  if (stick)
    std::erase_if(spec.encodings,
                  [](const Encoding& e) { return std::holds_alternative<Sink>(e); });
}

// A chain of steps takes the place of rotations and of other chains.
inline void keep_one_product(Spec& spec) {
  bool chain = false;
  std::erase_if(spec.encodings, [&](const Encoding& e) {
    const bool again = is_chain(e) && chain;
    chain = chain || is_chain(e);
    return again;
  });
  if (chain) std::erase_if(spec.encodings, [](const Encoding& e) { return is_rotary(e); });
}

// One to three encodings.
inline Spec random_spec(Rng& rng) {
  Spec spec;
  for (std::int64_t count = rng.integer(1, 3); count > 0; --count) {
    Encoding encoding = random_encoding(rng);
    if (!std::holds_alternative<None>(encoding)) spec.encodings.push_back(std::move(encoding));
  }
  keep_one_normaliser(spec);
  keep_one_product(spec);
  return spec;
}

// A RoPE with fields that fit a head: random in everything that a head allows.
inline Rope random_rope(Rng& rng, const ModelShape& shape) {
  Rope rope;
  rope.theta = {std::exp(rng.uniform(std::log(10.0), std::log(1e7)))};
  rope.layout = static_cast<PairLayout>(rng.integer(0, 1));
  const std::int64_t pairs = rng.integer(2, shape.head_dim / 2);
  rope.rotary_dim = 2 * pairs;
  rope.dim_offset = rng.integer(0, shape.head_dim - rope.rotary_dim);
  rope.inverse = rng.uniform() < 0.3;
  const std::vector<double> ext(static_cast<std::size_t>(pairs), rng.uniform(1.0, 8.0));
  const double factor = rng.uniform(1.0, 16.0);
  const std::array<Schedule, 9> schedules = {
      DefaultSchedule{},
      LinearSchedule{factor},
      NtkSchedule{factor},
      DynamicSchedule{.factor = factor, .max_position_embeddings = 512},
      YarnSchedule{.factor = factor, .original_max_position_embeddings = 1024},
      LongRopeSchedule{.short_factor = ext, .long_factor = ext, .factor = factor},
      Llama3Schedule{.factor = factor},
      LinearIndexSchedule{},
      LearnableSchedule{}};
  rope.schedule = schedules[static_cast<std::size_t>(rng.integer(0, 8))];
  const std::int64_t first = rng.integer(1, pairs - 1);
  const std::array<Axes, 3> axes = {SingleAxis{}, AxialAxes{.sections = {first, pairs - first}},
                                    MropeAxes{{first, pairs - first}}};
  const bool per_axis = std::holds_alternative<LongRopeSchedule>(rope.schedule) ||
                        std::min(first, pairs - first) < 2;  // lists and bases are per block
  rope.axes = axes[static_cast<std::size_t>(per_axis ? 0 : rng.integer(0, 2))];
  return rope;
}

}  // namespace posenc::testing
