// Shared by the verbs of posenc-lab, and the verb train.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "core/failure.h"
#include "core/plain_text.h"
#include "parallel/launch.h"
#include "posenc/core/error.h"
#include "runs/progress.h"
#include "system/restart.h"
#include "train/attention_run.h"
#include "train/generate.h"
#include "train/run.h"

namespace posenc::train {

// Exit codes, as of the other verbs.
inline constexpr int kFine = 0;
inline constexpr int kFailure = 1;
inline constexpr int kMistake = 2;

struct Arguments {
  std::string config;
  std::string run;
  std::vector<std::string> overrides;
  std::string out;
  std::string progress = "auto";
  int threads = 0;
  int procs = 0;         // ranks to start; 0: this process trains
  double minutes = 0.0;  // 0: no time box
  bool resume = false;
  bool force = false;
  bool no_eval = false;
  bool json = false;
  bool no_links = false;
  EvalOptions eval;
  AttentionQuery attention;
  std::string text;  // of attention, in place of a sample
  GenerateOptions generate;
  bool greedy = false;
};

// All ranks of a job see the same mistake; rank 0 says it.
template <class... Arguments>
void print_once(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  if (parallel::claimed_rank() == 0) {
    fmt::print(stderr, format, std::forward<Arguments>(arguments)...);
  }
}

inline bool is_mistake(const std::exception& failure) {
  return dynamic_cast<const Error*>(&failure) != nullptr;
}

// Prints why the program ends, and returns its exit code.
inline int say(const std::exception& failure) {
  const bool mistake = is_mistake(failure);
  print_once("posenc: {}\n", mistake ? failure.what() : one_line(failure_text(failure)));
  return mistake ? kMistake : kFailure;
}

// Thrown where that is done and other ranks know it.
struct Said {
  int code;
};

inline runs::Progress::Mode mode_of(const std::string& name) {
  const auto names = enum_names(runs::Progress::Mode{});
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<runs::Progress::Mode>(i);
  }
  return runs::Progress::Mode::kAuto;
}

// JSON goes to standard output; the progress bar and messages go to standard error.
inline runs::ProgressOutput output_of(runs::Progress::Mode mode) {
  const int descriptor = mode == runs::Progress::Mode::kJson ? STDOUT_FILENO : STDERR_FILENO;
  return runs::ProgressOutput::to_descriptor(descriptor);
}

int train(const Arguments& a, const std::vector<std::string>& command_line);

// Settings of the environment for one of several processes: c10d logs what this program says in one line. Its own variables
// turn that on again.
EnvironmentSettings quiet_transport();

}  // namespace posenc::train
