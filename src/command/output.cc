#include "command/output.h"

#include <poll.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

namespace posenc::command {
namespace {

int code_of(const std::exception* thrown) {
  const auto* of_system = dynamic_cast<const std::system_error*>(thrown);
  return of_system == nullptr ? 0 : of_system->code().value();
}

bool is_closed_pipe(std::FILE* output) {
  pollfd end{.fd = fileno(output), .events = 0, .revents = 0};
  return poll(&end, 1, 0) == 1 && (end.revents & POLLERR) != 0;
}

}  // namespace

bool is_closed_pipe(const std::exception& thrown) { return code_of(&thrown) == EPIPE; }

std::string output_problem(std::FILE* standard_output, const std::exception* thrown) {
  const bool failed_before = std::ferror(standard_output) != 0;
  const bool failed_now = std::fflush(standard_output) != 0;
  int why = failed_now ? errno : 0;
  if (!failed_before && !failed_now) return "";
  if (const int code = code_of(thrown); code != 0) why = code;
  if (why == EPIPE || (why == 0 && is_closed_pipe(standard_output))) return "";
  const std::string problem = "[standard output] cannot be written";
  return why == 0 ? problem : problem + ": " + std::generic_category().message(why);
}

}  // namespace posenc::command
