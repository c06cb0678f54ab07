// The runs below some folders, as they lie on the disk.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "report/results.h"
#include "runs/scores.h"
#include "runs/unpack.h"

namespace posenc::report {

// Where the files of a run are: in its directory, or unpacked in a temporary folder, which stays for as long
// as something holds it.
struct RunFolder {
  std::filesystem::path path;
  std::shared_ptr<const runs::UnpackedPack> pack = nullptr;  // none: the run is a directory
};
// A message about a file of the run, with the path that people know in place of a temporary one.
std::string shown_message(std::string message, const RunFolder& folder, const std::string& shown);

struct Run {
  std::filesystem::path
      path;  // as shown to people: "evidence/main.tar.zst/seed0" for a run in a pack
  RunFolder folder;
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

// Every run of the folders and packs, in the order of the paths; packs below the folders are among them. A run
// or pack that cannot be read has a remark. Throws where one that was named is not there or is damaged, and
// where there is no run at all.
std::vector<Run> find_runs(const std::vector<std::string>& places);

using FlatConfig = std::vector<std::pair<std::string, std::string>>;

// What decides a trained model, as "model.layers=4" pairs: without evaluation, name, what is only logged, and
// fields that the run does not read (config/field_use.h). Named parts are opened up: task.flip_flop.p.
FlatConfig training_fields(const Value& config);
// What decides the figures of an evaluation, as "eval.samples=512" pairs.
FlatConfig eval_fields(const Results& results);

}  // namespace posenc::report
