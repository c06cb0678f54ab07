// Small functions on text that several layers need.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

namespace posenc {

// FNV-1a, 64 bits.
constexpr std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

// The parts between separators, empty ones included: one more than there are separators. They point into `text`.
inline std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}
// Lines, without what ends them; a newline at the end begins no further one.
inline std::vector<std::string_view> split_lines(std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  return text.empty() ? std::vector<std::string_view>{} : split(text, '\n');
}

}  // namespace posenc
