// A run is a directory with these files. docs/runs.md describes each.
//
//   config.yaml  environment.json  status.json  metrics.jsonl  results.json
//   events.out.tfevents.*  checkpoints/  .lock
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "core/value.h"
#include "posenc/core/fields.h"
#include "system/files.h"

namespace posenc::runs {

enum class RunState { kRunning, kFinished, kStopped, kDiverged, kFailed };
constexpr std::array<std::string_view, 5> enum_names(RunState /*tag*/) {
  return {"running", "finished", "stopped", "diverged", "failed"};
}

struct RunStatus {
  RunState state = RunState::kRunning;
  std::int64_t step = 0;
  std::string message;
  std::string config_hash;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("state", self.state, FieldRule{.doc = "what became of the run", .required = true});
    visit("step", self.step, FieldRule{.doc = "steps done", .min = 0, .required = true});
    visit("message", self.message, FieldRule{.doc = "for people"});
    visit("config_hash", self.config_hash, FieldRule{.doc = "of the resolved config"});
  }
  bool operator==(const RunStatus&) const = default;
};

// What a new run begins with.
struct NewRun {
  std::string config;  // text of config.yaml
  std::string config_hash;
  Value environment;  // describe_environment()
};

// Does a process hold the lock of the run whose .lock this is?
bool is_locked(const Descriptor& lock_file);

enum class Access { kRead, kWrite };

// Throws Error where writing to `output` would replace a file that a run consists of.
void require_no_run_file(const std::filesystem::path& output);

class RunDirectory {
 public:
  // Makes the directory with config.yaml, environment.json and a status of step 0, or nothing at all.
  // Refuses one that holds a run or anything foreign. The result holds the lock.
  static RunDirectory create(const std::filesystem::path& path, const NewRun& run);
  // A run that exists. kWrite takes the lock (refused while another process has it) and removes what
  // killed writers left; kRead takes and changes nothing.
  static RunDirectory open(const std::filesystem::path& path, Access access = Access::kWrite);
  // Has this directory a run?
  static bool exists(const std::filesystem::path& path);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::filesystem::path config_path() const { return path_ / "config.yaml"; }
  [[nodiscard]] std::filesystem::path environment_path() const {
    return path_ / "environment.json";
  }
  [[nodiscard]] std::filesystem::path status_path() const { return path_ / "status.json"; }
  [[nodiscard]] std::filesystem::path metrics_path() const { return path_ / "metrics.jsonl"; }
  [[nodiscard]] std::filesystem::path results_path() const { return path_ / "results.json"; }
  [[nodiscard]] std::filesystem::path checkpoints_path() const { return path_ / "checkpoints"; }

  // Each replaces its file at once. They throw where the directory was opened to read.
  void write_config(std::string_view text) const;
  void write_environment(const Value& environment) const;
  void set_status(const RunStatus& status) const;
  void write_results(const Value& results) const;

  [[nodiscard]] std::string config() const;
  [[nodiscard]] Value environment() const;
  [[nodiscard]] RunStatus status() const;
  [[nodiscard]] std::optional<Value> results() const;  // nothing before an evaluation

  // Is a process writing? A status of `running` without one means that it was killed.
  [[nodiscard]] bool in_use() const;

 private:
  explicit RunDirectory(std::filesystem::path path) : path_(std::move(path)) {}
  void lock();
  void require_lock() const;

  std::filesystem::path path_;
  Descriptor lock_;  // closed, and with that unlocked, at the latest when the process ends
};

}  // namespace posenc::runs
