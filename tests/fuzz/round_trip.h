// What must hold of every spec that a parser accepts: each of the three written forms reads back as
// the same spec with the same hash, and writing is canonical.
#pragma once

#include "posenc/core/error.h"
#include "posenc/encodings/spec.h"

namespace posenc::fuzz {

inline void require(bool holds) {
  if (!holds) __builtin_trap();
}

inline void check_same(const Spec& spec, const Spec& again) {
  require(again == spec);
  require(hash(again) == hash(spec));
  require(to_text(again) == to_text(spec));
}

// An Error thrown from here is a finding too: what was written must be readable.
inline void check_round_trip(const Spec& spec) {
  try {
    check_same(spec, parse_spec(to_text(spec)));
    check_same(spec, parse_spec_yaml(to_yaml(spec)));
    check_same(spec, parse_spec_json(to_json(spec)));
  } catch (const Error&) {
    require(false);
  }
}

// Parses and checks; an Error is an answer, and any other exception leaves the target as a finding.
template <class Parse>
int run(Parse parse) {
  Spec spec;
  try {
    spec = parse();
  } catch (const Error&) {
    return 0;
  }
  check_round_trip(spec);
  return 0;
}

}  // namespace posenc::fuzz
