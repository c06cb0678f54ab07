// Options that take one of an enum's names.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

namespace posenc::cli {

// The allowed names, and the value of one of them once the parser has checked it.
template <class E>
std::vector<std::string> names_of() {
  const auto names = enum_names(E{});
  return {names.begin(), names.end()};
}
template <class E>
E value_of(const std::string& name) {
  const auto names = enum_names(E{});
  return static_cast<E>(std::find(names.begin(), names.end(), name) - names.begin());
}
template <class E>
std::string name_of(E value) {
  return std::string(enum_name(value));
}

}  // namespace posenc::cli
