// Configs that list their fields.
//
// A config is a plain struct with a function that visits each of its fields:
//
//   struct Linear {
//     double factor = 1.0;
//     template <class Self, class Visitor>
//     static void visit_fields(Self& self, Visitor&& visit) {
//       visit("factor", self.factor, FieldRule{.doc = "...", .min = 1.0, .required = true});
//     }
//   };
//
// Parsing, validation, printing, help, hashing and the tables of the documentation are generated
// from this list. A field may be a bool, an integer, a number, an optional number, a list of numbers
// or integers, an enum with names, or a std::variant of configs (such as the schedule of RoPE).
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace posenc {

// The range of a slider: a useful part of the allowed values.
struct UsualRange {
  double low = 0.0;
  double high = 0.0;  // not above low: no range is given
  bool log = false;   // logarithmic slider
};
constexpr UsualRange log_range(double low, double high) { return {low, high, true}; }

// How the entries of a list relate to the rotated pairs of a head: not at all, one entry per pair, or entries that sum
// to the number of pairs.
enum class Pairs { kUnrelated, kEntryEach, kSum };
constexpr std::array<std::string_view, 3> enum_names(Pairs /*tag*/) {
  return {"unrelated", "entry_each", "sum"};
}

struct FieldRule {
  std::string_view doc = {};
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool open_min = false;  // min itself is not allowed
  bool even = false;      // integers only
  bool required = false;  // has no sensible default
  bool advanced = false;  // rarely needed: user interfaces may hide it
  UsualRange usual = {};
  // An example value as JSON, for fields without a default. A list is repeated to one entry per pair.
  std::string_view example = {};
  Pairs pairs = Pairs::kUnrelated;
};

// Rules of numbers with a slider: [min, max], and (min, max] for rule_above.
constexpr FieldRule rule_between(std::string_view doc, double min, double max, UsualRange usual) {
  return {.doc = doc, .min = min, .max = max, .usual = usual};
}
constexpr FieldRule rule_above(std::string_view doc, double min, double max, UsualRange usual) {
  return {.doc = doc, .min = min, .max = max, .open_min = true, .usual = usual};
}

// A field as documentation shows it.
struct FieldDoc {
  std::string name;
  std::string type;           // "number", "integer", "one of half, interleaved", ...
  std::string default_value;  // "required" if there is none
  std::string range;          // ">= 1", "(0, 2]"; empty if any value is allowed
  std::string doc;
  FieldRule rule;
};

// An enum's names, in order from 0, come from an overload that is found by argument-dependent lookup:
//   constexpr std::array<std::string_view, 2> enum_names(Layout) { return {"half", "interleaved"};
//   }

template <class E>
constexpr std::string_view enum_name(E value) {
  return enum_names(value)[static_cast<std::size_t>(value)];
}

}  // namespace posenc

// SPDX-License-Identifier: MIT
