// Every encoding of a site, one spec per value that its choices may take: enums, flags, optional numbers,
// schedules and axes, those of a schedule included. Read from the field lists, so a new schedule or
// choice is tried without a change here.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/bind.h"
#include "posenc/core/error.h"
#include "posenc/encodings/spec.h"

namespace posenc::testing {

// Values for fields without a sensible default. Trained lengths are 16 and 24: tests cross both.
class FillFields {
 public:
  explicit FillFields(std::int64_t pairs) : pairs_(pairs) {}

  template <class Field>
  void operator()(std::string_view name, Field& field, const FieldRule& rule) const {
    fill(name, field, rule);
  }

 private:
  template <class Field>
  void fill(std::string_view /*name*/, Field& /*field*/, const FieldRule& /*rule*/) const {}
  void fill(std::string_view name, double& field, const FieldRule& /*rule*/) const {
    if (name == "factor") field = 4.0;
  }
  void fill(std::string_view name, std::optional<double>& field, const FieldRule& /*rule*/) const {
    if (name == "factor") field = 4.0;
  }
  void fill(std::string_view name, std::int64_t& field, const FieldRule& /*rule*/) const {
    if (name == "original_max_position_embeddings") field = 16;
    if (name == "max_position_embeddings") field = 24;
  }
  void fill(std::string_view name, std::vector<double>& field, const FieldRule& rule) const {
    if (!rule.required) return;
    const double step = name.starts_with("long") ? 1.0 : 0.25;
    for (std::int64_t p = 0; p < pairs_; ++p) field.push_back(1.0 + step * static_cast<double>(p));
  }
  void fill(std::string_view /*name*/, std::vector<std::int64_t>& field,
            const FieldRule& rule) const {
    if (rule.required) field = {pairs_ - pairs_ / 2, pairs_ / 2};
  }

  std::int64_t pairs_;
};

// Sets the n-th alternative of a config, in the order of its fields.
class TakeAlternative {
 public:
  TakeAlternative(std::int64_t n, std::int64_t pairs) : left_(n), pairs_(pairs) {}
  [[nodiscard]] bool taken() const { return left_ < 0; }

  template <class Field>
  void operator()(std::string_view /*name*/, Field& field, const FieldRule& /*rule*/) {
    if (!taken()) vary(field);
  }

 private:
  [[nodiscard]] bool take() { return left_-- == 0; }

  template <class Field>
  void vary(Field& /*field*/) {}  // numbers and lists stay
  void vary(bool& field) {
    if (take()) field = !field;
  }
  void vary(std::optional<double>& field) {
    if (take()) field = 1.25;
  }
  template <NamedEnum E>
  void vary(E& field) {
    for (std::size_t i = 0; i < enum_names(E{}).size(); ++i) {
      if (take()) field = static_cast<E>(i);
      if (taken()) return;
    }
  }
  template <class... Configs>
  void vary(std::variant<Configs...>& field) {
    (vary_as<Configs>(field), ...);
  }
  template <class Config, class Variant>
  void vary_as(Variant& field) {
    if (taken()) return;
    Config config;
    Config::visit_fields(config, FillFields(pairs_));
    if (!take()) Config::visit_fields(config, *this);
    if (taken()) field = config;
  }

  std::int64_t left_;
  std::int64_t pairs_;
};

// Some choices need another one next to them.
template <class Config>
bool is_valid(const Config& config, std::int64_t head_dim) {
  try {
    validate(config, ModelShape{.head_dim = head_dim, .heads = 2});
  } catch (const Error&) {
    return false;
  }
  return true;
}

template <class Config>
void add_alternatives(Site site, std::int64_t head_dim, std::vector<std::string>& specs) {
  if (Config::kTraits.site != site) return;
  Config plain;
  Config::visit_fields(plain, FillFields(head_dim / 2));
  specs.push_back(to_text(Spec{{plain}}));
  for (std::int64_t n = 0;; ++n) {
    Config config = plain;
    TakeAlternative take(n, head_dim / 2);
    Config::visit_fields(config, take);
    if (!take.taken()) return;
    if (is_valid(config, head_dim)) specs.push_back(to_text(Spec{{config}}));
  }
}

template <class... Configs>
std::vector<std::string> catalog_specs(Site site, std::int64_t head_dim,
                                       const std::variant<Configs...>* /*tag*/) {
  std::vector<std::string> specs;
  (add_alternatives<Configs>(site, head_dim, specs), ...);
  return specs;
}
inline std::vector<std::string> catalog_specs(Site site, std::int64_t head_dim) {
  return catalog_specs(site, head_dim, static_cast<const Encoding*>(nullptr));
}

}  // namespace posenc::testing
