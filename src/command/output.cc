#include "command/output.h"

#include <cerrno>
#include <cstdio>
#include <system_error>

namespace posenc::command {

std::string output_problem(std::FILE* standard_output, const std::exception* thrown) {
  const bool failed_before = std::ferror(standard_output) != 0;
  const bool failed_now = std::fflush(standard_output) != 0;
  int why = failed_now ? errno : 0;
  if (!failed_before && !failed_now) return "";
  const auto* of_system = dynamic_cast<const std::system_error*>(thrown);
  if (of_system != nullptr) why = of_system->code().value();
  if (why == EPIPE) return "";
  const std::string problem = "[standard output] cannot be written";
  return why == 0 ? problem : problem + ": " + std::generic_category().message(why);
}

}  // namespace posenc::command
