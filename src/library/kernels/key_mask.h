// Key masks as bytes: 1 for a key, 0 for padding; other values are an error.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

namespace posenc {

// The first entry that is neither 0 nor 1, or mask.end(). Other values are refused: a mask of another
// meaning, such as one that is added to scores, would be read as its opposite.
inline auto first_not_a_flag(std::span<const std::uint8_t> mask) noexcept {
  return std::find_if(mask.begin(), mask.end(), [](std::uint8_t entry) { return entry > 1; });
}

}  // namespace posenc
