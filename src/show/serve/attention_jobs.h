// Attention on request: one program at a time computes the record of one sample.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "serve/files.h"

namespace posenc::serve {

// What a record's name says: <axis>-T<length>-sample<N>.safetensors, with -best before the ending for the
// best checkpoint instead of the last.
struct RecordName {
  std::string axis;
  std::int64_t length = 0;
  std::int64_t sample = 0;
  bool best = false;
};
std::optional<RecordName> parse_record_name(std::string_view file);

// A message that names a file or folder as people know it, not by the handle that a reader got.
std::string with_name(std::string message, const std::string& handle, const std::string& name);

struct AttentionProgram {
  std::vector<std::string>
      words;  // program and first words; RUN --sample N --length T --no-links follow
  std::chrono::milliseconds limit = std::chrono::minutes(5);
  std::chrono::milliseconds grace = std::chrono::seconds(1);  // between SIGTERM and SIGKILL
};

struct AttentionRequest {
  std::string run;  // folder, as messages name it
  std::int64_t sample = 0;
  std::int64_t length = 0;
  bool operator==(const AttentionRequest&) const = default;
};

class AttentionJobs {
 public:
  explicit AttentionJobs(AttentionProgram program) : program_(std::move(program)) {}
  ~AttentionJobs();  // ends what runs, and waits for it
  AttentionJobs(AttentionJobs&&) = delete;
  AttentionJobs& operator=(AttentionJobs&&) = delete;

  // Asks what runs to end, and does not wait.
  void end();

  enum class State { kIdle, kRunning, kBusy, kDone, kFailed };
  struct Answer {
    State state = State::kIdle;
    double seconds = 0.0;  // that it has been running
    std::string message;   // why it failed
  };
  // The state of this request; an outcome is reported once.
  Answer look(const AttentionRequest& request);
  // Starts it where nothing runs: kRunning, kBusy, or kFailed where the program cannot be started.
  // The program gets the folder that is open, so that a link in its place changes nothing.
  Answer start(const AttentionRequest& request, Folder run_folder);

 private:
  struct Outcome {
    AttentionRequest request;
    std::string failure;  // empty: it went well
  };
  void watch(const AttentionRequest& request, const Folder& folder);
  std::string run(const AttentionRequest& request, const std::string& path);
  // Waits a little; true once the server ends.
  bool pause(std::chrono::milliseconds time);

  AttentionProgram program_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ending_ = false;
  bool running_ = false;
  AttentionRequest request_;
  std::chrono::steady_clock::time_point since_;
  std::optional<Outcome> outcome_;
  std::thread thread_;
};

}  // namespace posenc::serve
