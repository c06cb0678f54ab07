// NVIDIA's multi-process service (MPS) for the jobs of a sweep: kernels of several processes run on one
// GPU concurrently instead of taking turns.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sweep/time_box.h"

namespace posenc::sweep {

class GpuService {
 public:
  // Starts a service with separate folders, unless nvidia-cuda-mps-control is not in PATH or a service
  // answers already. A service that does not start in time is no error: jobs run without it.
  explicit GpuService(std::chrono::milliseconds limit = kServiceLimit);
  // Shuts down what was started. A daemon that does not answer gets SIGTERM, and its folder stays: without the
  // pipes it could not be reached.
  ~GpuService();
  GpuService(GpuService&&) = delete;
  GpuService& operator=(GpuService&&) = delete;

  // Set for every job. Empty unless a service was started.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> job_environment() const;
  // How the jobs use the GPU, for people.
  [[nodiscard]] const std::string& remark() const { return remark_; }
  // It was there and did not start; the remark says why.
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  void start();
  void fail(const std::string& why);
  void quit() noexcept;
  [[nodiscard]] bool has_quit() const;
  [[nodiscard]] std::optional<std::string> ask(const std::string& request) const;
  [[nodiscard]] bool lists_a_server() const;
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> folders() const;

  std::chrono::milliseconds limit_;  // of each call, and for the server to appear
  std::filesystem::path folder_;     // of pipes and logs, while a service of ours runs
  std::string remark_;
  bool may_run_ = false;  // a daemon of ours
  bool failed_ = false;
};

}  // namespace posenc::sweep
