// `posenc train --procs N`: starts N ranks of this program on this host and waits for them, as torchrun would.
#pragma once

#include <string>
#include <vector>

#include "system/stop_request.h"

namespace posenc::parallel {

struct Procs {
  int count = 1;
  std::vector<std::string> words;  // the program and its arguments, without --procs
  double timeout_s = 600.0;
};

// How the ranks ended.
struct ProcsEnding {
  int code = 0;         // 0 where all ended with 0, else that of the rank that failed first
  std::string message;  // what to say about it; empty where rank 0 has said it
};

// A signal to this process goes on to all ranks. A rank that ends with an error ends the others within the timeout.
ProcsEnding run_procs(const Procs& procs, const StopRequest& stop);

}  // namespace posenc::parallel
