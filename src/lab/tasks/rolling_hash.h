// Hashes of all strings of a fixed number of bytes, in one pass.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tasks/document.h"
#include "tasks/draw.h"

namespace posenc::tasks {

// visit(hash) for each string of `Width` bytes, in order.
template <std::size_t Width, class Visit>
void for_each_string(Bytes bytes, Visit visit) {
  constexpr std::uint64_t kBase = 0x9E3779B97F4A7C15u;  // odd
  std::uint64_t leading = 1;
  for (std::size_t i = 1; i < Width; ++i) leading *= kBase;
  std::uint64_t rolling = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i >= Width) rolling -= leading * bytes[i - Width];
    rolling = rolling * kBase + bytes[i];
    if (i + 1 >= Width) visit(mixed(rolling));
  }
}

}  // namespace posenc::tasks
