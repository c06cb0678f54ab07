// The runs below some folders, as they lie on the disk.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "report/results.h"
#include "runs/scores.h"

namespace posenc::report {

struct Run {
  std::filesystem::path path;
  Value config;         // as resolved when it was trained
  std::string machine;  // processor, threads and device: what a speed depends on
  bool on_gpu = false;
  std::optional<std::int64_t> jobs_at_once;  // of its sweep; nothing where no sweep said so
  std::optional<std::int64_t> started;       // seconds since 1970
  std::optional<Results> results;
  std::optional<runs::RunTallies> scores;  // by row, of the evaluation that results are of
  std::string scores_remark;               // why there are none: "has no scores.bin"
  bool failed = false;  // diverged or failed: it counts as a failure of its config
  // Why it is not in the table, or what is odd about it: "stopped at step 300". Empty: nothing.
  std::string remark;
};

// The files of a run as text, however they were opened.
struct RunFiles {
  std::string status;
  std::string config;
  std::string environment;
  std::optional<std::string> results;  // nothing before an evaluation
  std::optional<std::string> scores;   // the bytes of scores.bin
  bool in_use = false;                 // a process writes to it
};

// A run that cannot be read or understood has a remark that says so.
Run read_run(const std::filesystem::path& shown, const std::function<RunFiles()>& read);

// Every run below the folders, in the order of the paths. A run that cannot be read is among them, with
// its remark. Throws where a folder is not there, or where there is no run at all.
std::vector<Run> find_runs(const std::vector<std::string>& folders);

using FlatConfig = std::vector<std::pair<std::string, std::string>>;

// What decides a trained model, as "model.layers=4" pairs: without evaluation, name and what is only logged.
// Named parts are opened up: task.flip_flop.p.
FlatConfig training_fields(const Value& config);
// What decides the figures of an evaluation, as "eval.samples=512" pairs.
FlatConfig eval_fields(const Results& results);

}  // namespace posenc::report
