// Runs a program and captures its output.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "system/process.h"

namespace posenc {

struct Captured {
  Ending ending;
  std::string output;      // of both streams
  bool timed_out = false;  // it was killed

  [[nodiscard]] bool fine() const { return ending.fine() && !timed_out; }
};

// Runs a command to its end, or kills it at the limit. Throws as Process does.
Captured run_captured(const std::vector<std::string>& words,
                      std::chrono::milliseconds limit = std::chrono::seconds(20));

// Is a program of this name in PATH?
bool is_on_path(const std::string& program);

}  // namespace posenc
