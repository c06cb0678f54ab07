#include "weights/name_pattern.h"

#include "posenc/core/error.h"

namespace posenc::weights {
namespace {

// Remembers the last star only: enough, since a later star can take over all that an earlier one could.
bool glob(std::string_view pattern, std::string_view name) {
  constexpr std::size_t kNone = std::string_view::npos;
  std::size_t p = 0;
  std::size_t n = 0;
  std::size_t star = kNone;
  std::size_t star_name = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_name = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != kNone) {
      p = star + 1;
      n = ++star_name;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == kNone;
}

}  // namespace

bool matches(std::string_view pattern, std::string_view name) {
  if (pattern.find_first_of("*?") != std::string_view::npos) return glob(pattern, name);
  if (!name.ends_with(pattern)) return false;
  return name.size() == pattern.size() || name[name.size() - pattern.size() - 1] == '.';
}

std::optional<std::string_view> rest_after(std::string_view pattern, std::string_view name) {
  for (std::size_t dot = name.find('.'); dot != std::string_view::npos;
       dot = name.find('.', dot + 1)) {
    if (matches(pattern, name.substr(0, dot))) return name.substr(dot + 1);
  }
  if (matches(pattern, name)) return std::string_view();
  return std::nullopt;
}

std::optional<std::string_view> rest_after(const Patterns& patterns, std::string_view name) {
  for (const std::string& pattern : patterns) {
    if (const auto rest = rest_after(pattern, name)) return rest;
  }
  return std::nullopt;
}

void check_patterns(const Patterns& patterns, std::string_view option) {
  for (const std::string& pattern : patterns) {
    if (!pattern.empty()) continue;
    throw Error(ErrorKind::kOutOfRange, {.scope = "convert",
                                         .key = std::string(option),
                                         .rule = "must be a name or a pattern",
                                         .value = "''",
                                         .hint = "such as self_attn.q_proj"});
  }
}

}  // namespace posenc::weights
