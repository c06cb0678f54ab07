// Runs that several processes train together, and what is compared of them.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "core/value.h"
#include "runs/checkpoints.h"
#include "runs/metrics.h"
#include "support/paths.h"
#include "train/lab_process.h"

namespace posenc::testing {

inline constexpr const char* kSharedConfig =
    R"(task: {selective_counting: {density: 0.3, cap: 4, max_label: 31}}
model: {encoding: rope + cope(npos_max=8), layers: 2, dim: 16, heads: 2, dropout: 0.1, mlp_dropout: 0.1}
train:
  stages: [{length: 12, batch: 16, steps: 8}, {length: 16, batch: 8, steps: 8}]
  accumulate: 2
  log_every: 4
  eval_every: 8
  eval_samples: 16
  checkpoint_every: 4
  timeout: 60
eval: {samples: 16, factors: [1, 2], tokens_per_batch: 64}
)";

using TensorBytes = std::map<std::string, std::vector<std::byte>>;

inline TensorBytes last_tensors(const std::string& run) {
  const runs::CheckpointReader reader(std::filesystem::path(run) / "checkpoints");
  const auto checkpoint = reader.load_latest();
  TensorBytes all;
  if (!checkpoint) return all;
  for (const auto& [group, file] : checkpoint->groups) {
    for (const auto& info : file.tensors()) all[group + "/" + info.name] = file.read(info);
  }
  return all;
}

// A number of each row of metrics.jsonl that has it.
inline std::vector<double> metric_column(const std::string& run, const char* name) {
  std::vector<double> column;
  for (const Value& row : runs::read_metrics(std::filesystem::path(run) / "metrics.jsonl")) {
    const Value* value = row.find(name);
    if (value == nullptr) continue;
    if (const auto* number = value->get_if<double>()) column.push_back(*number);
    if (const auto* whole = value->get_if<std::int64_t>()) {
      column.push_back(static_cast<double>(*whole));
    }
  }
  return column;
}

inline std::string status_of(const std::string& run) {
  return read_file((std::filesystem::path(run) / "status.json").string());
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

inline bool installed(const std::string& program) {
  return std::system(("command -v " + program + " > /dev/null 2>&1").c_str()) == 0;
}

inline int free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ::bind(socket, reinterpret_cast<sockaddr*>(&address), size);
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  ::close(socket);
  return ntohs(address.sin_port);
}

// Ranks that are started by hand, each with its own words and folder.
class HandStartedRanks {
 public:
  explicit HandStartedRanks(int port) : port_(port) {}
  // The output of all ranks together when they have ended; each ends with `; echo "rank R: CODE"`.
  std::string run(const std::vector<std::string>& words,
                  const std::vector<std::string>& before = {},
                  const std::vector<std::string>& programs = {}) const {
    std::string script;
    for (std::size_t r = 0; r < words.size(); ++r) {
      const std::string first = r < before.size() ? before[r] : "";
      const bool other = r < programs.size() && !programs[r].empty();
      script += "( " + first + " export RANK=" + std::to_string(r) +
                " LOCAL_RANK=" + std::to_string(r) + " WORLD_SIZE=" + std::to_string(words.size()) +
                " LOCAL_WORLD_SIZE=" + std::to_string(words.size()) +
                " MASTER_ADDR=127.0.0.1 MASTER_PORT=" + std::to_string(port_) + "; " +
                (other ? programs[r] : kLabPath) + " " + words[r] + "; echo rank " +
                std::to_string(r) + " ended with $? ) & ";
    }
    script += "wait";
    FILE* pipe = popen(("( " + script + " ) 2>&1").c_str(), "r");
    std::string out;
    std::array<char, 4096> buffer{};
    while (const std::size_t n = fread(buffer.data(), 1, buffer.size(), pipe)) {
      out.append(buffer.data(), n);
    }
    pclose(pipe);
    return out;
  }

 private:
  int port_;
};

// While one lives, processes that start are rank `rank` of two.
class EnvironmentOfRank {
 public:
  EnvironmentOfRank(const std::string& rank, const std::string& port)
      : variables_{{"RANK", rank},
                   {"LOCAL_RANK", rank},
                   {"WORLD_SIZE", "2"},
                   {"LOCAL_WORLD_SIZE", "2"},
                   {"MASTER_ADDR", "127.0.0.1"},
                   {"MASTER_PORT", port}} {
    for (const auto& [name, value] : variables_) setenv(name.c_str(), value.c_str(), 1);
  }
  ~EnvironmentOfRank() {
    for (const auto& [name, value] : variables_) unsetenv(name.c_str());
  }
  EnvironmentOfRank(const EnvironmentOfRank&) = delete;
  EnvironmentOfRank& operator=(const EnvironmentOfRank&) = delete;

 private:
  std::map<std::string, std::string> variables_;
};

// Processes that a process has started.
inline std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  const std::string list =
      "/proc/" + std::to_string(parent) + "/task/" + std::to_string(parent) + "/children";
  std::ifstream in(list);
  for (pid_t child = 0; in >> child;) children.push_back(child);
  std::sort(children.begin(), children.end());
  return children;
}

inline void expect_near(const std::vector<double>& a, const std::vector<double>& b,
                        double tolerance) {
  ASSERT_FALSE(a.empty());
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], tolerance) << i;
}

// Runs of one config in one folder.
class SharedRuns : public ::testing::Test {
 protected:
  [[nodiscard]] std::string train(const std::string& out, const std::string& more = "",
                                  const std::string& before = "") const {
    const LabResult result = run_lab(
        "train " + config_ + " --threads 1 --progress quiet --out " + (folder_ / out) + " " + more,
        before);
    EXPECT_EQ(result.code, 0) << result.out;
    return folder_ / out;
  }
  // A run that SIGTERM ends after its first checkpoint. It may end by itself before: the result is the same.
  void stop_early(const std::string& out, std::vector<std::string> words) const {
    const std::string run = folder_ / out;
    words.insert(words.begin(),
                 {"train", config_, "--out", run, "--threads", "1", "--progress", "quiet"});
    LabProcess process(words);
    while (process.running() && last_tensors(run).empty()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    process.send(SIGTERM);
    EXPECT_EQ(process.wait(), 0);
  }
  // Of a run that does not end by itself.
  [[nodiscard]] std::vector<std::string> words_of_long_run(const std::string& out,
                                                           const std::string& timeout,
                                                           const std::vector<std::string>& more = {
                                                               "--procs", "2"}) const {
    std::vector<std::string> words = {
        "train",      config_,
        "--out",      folder_ / out,
        "--threads",  "1",
        "--progress", "quiet",
        "--set",      "train.stages=[{length: 12, batch: 16, steps: 1000000}]",
        "--set",      "train.eval_every=0",
        "--set",      "train.timeout=" + timeout};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  // Another one than `before`, which an earlier process has left.
  static void wait_for_checkpoint(LabProcess& process, const std::string& run,
                                  const TensorBytes& before = {}) {
    while (process.running() && last_tensors(run) == before) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    ASSERT_TRUE(process.running());
  }

  Folder folder_;
  std::string config_ = folder_.write("config.yaml", kSharedConfig);
};

}  // namespace posenc::testing
