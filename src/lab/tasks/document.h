// A text that is trained on or held out as a whole.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace posenc::tasks {

using Bytes = std::span<const std::uint8_t>;

struct Document {
  std::string name;  // of its file, relative to the folder that was named
  Bytes bytes;
};

}  // namespace posenc::tasks
