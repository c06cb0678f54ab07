#include "core/failure.h"

#include <array>
#include <new>
#include <string_view>

namespace posenc {

std::string failure_text(const std::exception& failure) {
  const std::string_view text = failure.what();
  // How libtorch says it of the CPU and of CUDA.
  constexpr std::array<std::string_view, 2> kOutOfMemory = {"DefaultCPUAllocator: ",
                                                            "CUDA out of memory"};
  const bool allocation = dynamic_cast<const std::bad_alloc*>(&failure) != nullptr;
  if (allocation) return "out of memory";
  std::string line(text.substr(0, text.find('\n')));
  for (const std::string_view mark : kOutOfMemory) {
    const std::size_t at = line.find(mark);
    if (at != std::string::npos) return "out of memory: " + line.substr(at);
  }
  return line;
}

}  // namespace posenc
