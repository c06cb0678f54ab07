#include "serve/attention_jobs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <sstream>

#include "posenc/core/error.h"
#include "system/files.h"
#include "system/process.h"
#include "system/restart.h"

namespace posenc::serve {
namespace {

using Clock = std::chrono::steady_clock;

// Takes `name` and a whole number off the end of a text: "longer-T64" by "-T" is 64 and "longer".
std::optional<std::int64_t> take_number(std::string_view& text, std::string_view name) {
  const std::size_t at = text.rfind(name);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view digits = text.substr(at + name.size());
  std::int64_t number = 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (problem != std::errc() || end != digits.data() + digits.size() || number < 0) {
    return std::nullopt;
  }
  text = text.substr(0, at);
  return number;
}

// What a program prints: the end of it is kept, for the message when it fails.
class LastWords {
 public:
  LastWords() {
    std::array<int, 2> ends{-1, -1};
    if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) return;
    read_ = Descriptor(ends[0]);
    write_ = Descriptor(ends[1]);
  }
  // A path that the program's streams can be opened under; they block as usual there.
  [[nodiscard]] std::string path() const { return fmt::format("/dev/fd/{}", write_.number()); }
  void started() { write_ = Descriptor(); }
  void drain() {
    constexpr std::size_t kKept = 4096;
    std::array<char, 4096> buffer{};
    // Bounded: a program that prints without end must not keep its watcher from the clock.
    for (int round = 0; round < 64; ++round) {
      const ssize_t n = ::read(read_.number(), buffer.data(), buffer.size());
      if (n <= 0) break;
      text_.append(buffer.data(), static_cast<std::size_t>(n));
      if (text_.size() > kKept) text_.erase(0, text_.size() - kKept);
    }
  }
  [[nodiscard]] std::string line() const {
    std::istringstream in(text_);
    return last_line(in);
  }

 private:
  Descriptor read_, write_;
  std::string text_;
};

Command command_of(const AttentionProgram& program, const AttentionRequest& request,
                   const std::string& path, const std::string& output) {
  Command command;
  command.words = program.words;
  command.words.insert(command.words.end(),
                       {path, "--sample", std::to_string(request.sample), "--length",
                        std::to_string(request.length), "--no-links"});
  command.output = output;
  command.environment = patient_threads();
  command.own_group = true;  // Ctrl-C is for the server, which ends it
  return command;
}

}  // namespace

std::optional<RecordName> parse_record_name(std::string_view file) {
  constexpr std::string_view kEnding = ".safetensors";
  constexpr std::string_view kBest = "-best";
  const auto cut = [&](std::string_view end) {
    const bool has = file.size() > end.size() && file.substr(file.size() - end.size()) == end;
    if (has) file.remove_suffix(end.size());
    return has;
  };
  if (!cut(kEnding)) return std::nullopt;
  RecordName name;
  name.best = cut(kBest);
  const auto sample = take_number(file, "-sample");
  const auto length = take_number(file, "-T");
  const bool plain = !file.empty() && std::all_of(file.begin(), file.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  });
  if (!sample || !length || !plain) return std::nullopt;
  name.axis = file;
  name.length = *length;
  name.sample = *sample;
  return name;
}

std::string with_name(std::string message, const std::string& handle, const std::string& name) {
  for (std::size_t at = message.find(handle); at != std::string::npos;
       at = message.find(handle, at + name.size())) {
    message.replace(at, handle.size(), name);
  }
  return message;
}

void AttentionJobs::end() {
  {
    const std::scoped_lock lock(mutex_);
    ending_ = true;
  }
  wake_.notify_all();
}

AttentionJobs::~AttentionJobs() {
  end();
  if (thread_.joinable()) thread_.join();
}

AttentionJobs::Answer AttentionJobs::look(const AttentionRequest& request) {
  const std::scoped_lock lock(mutex_);
  const std::chrono::duration<double> seconds = Clock::now() - since_;
  if (running_ && request == request_) return {State::kRunning, seconds.count(), ""};
  if (outcome_ && outcome_->request == request) {
    const Outcome outcome = *std::exchange(outcome_, std::nullopt);
    return {outcome.failure.empty() ? State::kDone : State::kFailed, 0.0, outcome.failure};
  }
  return {running_ ? State::kBusy : State::kIdle, 0.0, ""};
}

AttentionJobs::Answer AttentionJobs::start(const AttentionRequest& request, Folder run_folder) {
  const std::scoped_lock lock(mutex_);
  if (running_) return {request == request_ ? State::kRunning : State::kBusy, 0.0, ""};
  if (thread_.joinable()) thread_.join();  // it has said that it is done
  // First: where it fails, nothing runs.
  thread_ =
      std::thread([this, request, folder = std::move(run_folder)] { watch(request, folder); });
  running_ = true;
  request_ = request;
  since_ = Clock::now();
  outcome_.reset();
  return {State::kRunning, 0.0, ""};
}

void AttentionJobs::watch(const AttentionRequest& request, const Folder& folder) {
  Outcome outcome{request, ""};
  try {
    const std::string path = folder.handle_path();
    outcome.failure = with_name(run(request, path), path, request.run);
  } catch (const std::exception& error) {
    outcome.failure = error.what();
  }
  const std::scoped_lock lock(mutex_);
  running_ = false;
  outcome_ = outcome;
}

bool AttentionJobs::pause(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return wake_.wait_for(lock, time, [this] { return ending_; });
}

std::string AttentionJobs::run(const AttentionRequest& request, const std::string& path) {
  constexpr std::chrono::milliseconds kLook{20};
  LastWords words;
  Process process(command_of(program_, request, path, words.path()));
  words.started();
  const auto deadline = Clock::now() + program_.limit;
  std::optional<Clock::time_point> asked;  // to end
  std::string why;
  for (;;) {
    words.drain();
    if (const auto ending = process.poll()) {
      words.drain();
      if (!why.empty()) return why;
      if (ending->fine()) return "";
      return fmt::format("[attention] {} failed ({}): {}", program_.words.front(),
                         ending_text(*ending), words.line());
    }
    const bool ends = pause(kLook);
    const auto now = Clock::now();
    if (!asked && (ends || now >= deadline)) {
      why = ends ? "[attention] the server is shutting down"
                 : fmt::format("[attention] {} took more than {} s and was stopped; request less",
                               program_.words.front(),
                               std::chrono::duration<double>(program_.limit).count());
      process.signal(SIGTERM);
      asked = now;
    } else if (asked && now - *asked >= program_.grace) {
      process.signal(SIGKILL);
    }
    if (ends) std::this_thread::sleep_for(kLook);  // pause() no longer waits
  }
}

}  // namespace posenc::serve
