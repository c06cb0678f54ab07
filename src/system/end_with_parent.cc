#include "system/end_with_parent.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

namespace posenc {

void end_with_parent(const char* variable) {
  const char* text = std::getenv(variable);
  const long worker = text == nullptr ? 0 : std::strtol(text, nullptr, 10);
  if (worker <= 1 || worker != ::getppid()) return;
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (worker != ::getppid()) std::raise(SIGTERM);  // it ended just before
}

}  // namespace posenc
