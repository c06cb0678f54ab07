// The runs below the server's folder, as they are now.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/value.h"
#include "serve/files.h"
#include "serve/metrics_tail.h"

namespace posenc::serve {

// Names from the server's folder down to the run; none: the folder is a run itself.
using RunPath = std::vector<std::string>;

// Every folder with a status.json; what is below a run is its own business. Links are not followed.
std::vector<RunPath> find_runs(const Folder& root);
bool is_run(const Folder& folder);
// "/api/runs/a/b%20c/", what the parts of a run are asked for with.
std::string run_url(const RunPath& path);
// Does a process write to the run?
bool in_use(const Folder& run);

// A text that is regenerated on request if it is older than `keep`: two hundred clients that poll cost
// one look at the disk.
class KeptText {
 public:
  explicit KeptText(std::chrono::milliseconds keep) : keep_(keep) {}
  std::string get(const std::function<std::string()>& make);

 private:
  std::chrono::milliseconds keep_;
  std::mutex mutex_;
  std::optional<std::chrono::steady_clock::time_point> made_;
  std::string text_;
};

// Describes runs; remembers what it read of files that did not change. For one thread at a time.
class RunReader {
 public:
  // {"folder": ..., "runs": [{"path", "url", "status", "in_use", "progress", ...}]}
  Value describe(const std::string& root);

 private:
  struct Config {  // what a list shows of it
    std::string encoding, task;
    std::optional<std::int64_t> seed;
    std::int64_t total_steps = 0;
    std::int64_t train_length = 0;
  };
  struct Tag {  // of a file's content
    std::uint64_t size = 0;
    std::int64_t modified_ns = 0;
    bool operator==(const Tag&) const = default;
  };
  template <class T>
  struct Kept {
    std::optional<Tag> tag;
    T value;
  };
  struct Memory {
    Kept<Config> config;
    Kept<Pace> pace;
    bool seen = false;
  };

  Value describe_run(const Folder& folder, const RunPath& path);
  static Config read_config(const File& file);

  std::map<RunPath, Memory> memory_;
};

}  // namespace posenc::serve
