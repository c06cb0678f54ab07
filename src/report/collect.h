// The runs below some folders, as they lie on the disk.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "report/results.h"

namespace posenc::report {

struct Run {
  std::filesystem::path path;
  Value config;         // as resolved when it was trained
  std::string machine;  // processor, threads and device: what a speed depends on
  std::optional<Results> results;
  // Why it is not in the table, or what is odd about it: "stopped at step 300". Empty: nothing.
  std::string remark;
};

// The files of a run as text, however they were opened.
struct RunFiles {
  std::string status;
  std::string config;
  std::string environment;
  std::optional<std::string> results;  // nothing before an evaluation
  bool in_use = false;                 // a process writes to it
};

// A run that cannot be read or understood has a remark that says so.
Run read_run(const std::filesystem::path& shown, const std::function<RunFiles()>& read);

// Every run below the folders, in the order of the paths. A run that cannot be read is among them, with
// its remark. Throws where a folder is not there, or where there is no run at all.
std::vector<Run> find_runs(const std::vector<std::string>& folders);

// A config as "model.layers=4" pairs, without what names a run or changes only what is logged. Named
// parts are opened up: task.flip_flop.p.
std::vector<std::pair<std::string, std::string>> flat_config(const Value& config);

}  // namespace posenc::report
