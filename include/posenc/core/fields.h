// One field list, many visitors.
//
// A config is a plain struct that names each of its fields once:
//
//   struct Linear {
//     double factor = 1.0;
//     template <class Self, class Visitor>
//     static void visit_fields(Self& self, Visitor&& visit) {
//       visit("factor", self.factor, FieldRule{.doc = "...", .min = 1.0, .required = true});
//     }
//   };
//
// Parsing, validation, printing, help, hashing and the tables of the documentation all come from
// that list. A field may be a bool, an integer, a number, an optional number, a list of either, an
// enum with names, or a std::variant of configs (such as the frequency schedule of RoPE).
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace posenc {

// Values worth trying, within the allowed ones: where a slider runs.
struct UsualRange {
  double low = 0.0;
  double high = 0.0;  // not above low: there is no such range
  bool log = false;   // a slider moves by factors
};
constexpr UsualRange log_range(double low, double high) { return {low, high, true}; }

// What the entries of a list have to do with the rotated pairs of a head: nothing; there is one for each pair; or they
// add up to the number of pairs.
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
  bool required = false;  // has no default that would make sense
  bool advanced = false;  // few users set it: a page may fold it away
  UsualRange usual = {};
  // A value to begin with, as JSON, where the default is none. A list is stretched to the pairs of a head.
  std::string_view example = {};
  Pairs pairs = Pairs::kUnrelated;
};

// The rule of a number that a slider sets: min to max, with min itself or without it.
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
  std::string default_value;  // "required" where there is none
  std::string range;          // ">= 1", "(0, 2]", empty when any value goes
  std::string doc;
  FieldRule rule;
};

// Names of an enum's values, in order from 0, are given by an overload found through the enum:
//   constexpr std::array<std::string_view, 2> enum_names(Layout) { return {"half", "interleaved"};
//   }

template <class E>
constexpr std::string_view enum_name(E value) {
  return enum_names(value)[static_cast<std::size_t>(value)];
}

}  // namespace posenc
