#include "command/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

namespace posenc::command {

bool has_colours(int file) {
  // NOLINTBEGIN(concurrency-mt-unsafe): nothing sets variables at the same time
  const char* refused = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  // NOLINTEND(concurrency-mt-unsafe)
  const bool plain =
      terminal == nullptr || *terminal == '\0' || std::string_view(terminal) == "dumb";
  return !plain && (refused == nullptr || *refused == '\0') && ::isatty(file) == 1;
}

std::size_t terminal_width(int file) {
  winsize size{};
  return ::ioctl(file, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

std::string coloured(std::string_view text, Colour colour) {
  constexpr std::array<int, 5> kCodes = {0, 1, 31, 32, 33};
  if (colour == Colour::kNone || text.empty()) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", kCodes[static_cast<std::size_t>(colour)], text);
}

}  // namespace posenc::command
