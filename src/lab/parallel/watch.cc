#include "parallel/watch.h"

#include <fmt/format.h>

#include <chrono>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "parallel/judge.h"

namespace posenc::parallel {
namespace {

using Clock = std::chrono::steady_clock;

// The ranks that read all beats: one of them may be the one that fails. The others read the verdict.
constexpr int kJudges = 2;

std::string beat_key(int rank) { return fmt::format("beat/{}", rank); }

double seconds_now() {
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

void sleep_for(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

}  // namespace

Watch::Watch(const Launch& launch, Board board, double timeout_s, OnFailure on_failure)
    : launch_(launch),
      board_(std::move(board)),
      timeout_(timeout_s),
      on_failure_(std::move(on_failure)) {
  show_beat();
  thread_ = std::thread([this] { work(); });
}

Watch::~Watch() {
  ended_ = true;
  thread_.join();
}

void Watch::show_beat() { board_.set(beat_key(launch_.rank), beat_text({++count_, entered_})); }

void Watch::wait_for_verdict() {
  broken_ = true;
  const double end = seconds_now() + timeout_;
  while (seconds_now() < end) sleep_for(0.05);
}

// A table that does not answer is that of a rank 0, or of a launcher, that is gone.
void Watch::work() {
  Judge judge(launch_.world, timeout_);
  while (!ended_) {
    try {
      show_beat();
      std::optional<Failure> failure = failure_of(board_);
      if (!failure && launch_.rank < kJudges) {
        std::vector<Beat> beats;
        for (int r = 0; r < launch_.world; ++r) {
          beats.push_back(read_beat(board_.find(beat_key(r)).value_or("")));
        }
        if (const auto verdict = judge.look(seconds_now(), beats, broken_)) {
          failure = report_failure(board_, {.rank = verdict->rank, .text = verdict->text});
        }
      }
      if (failure && !ended_) return on_failure_(*failure);
    } catch (const std::exception&) {
      if (ended_) return;
      return on_failure_(
          {.rank = 0, .text = "it is gone: its rendezvous does not answer any more"});
    }
    for (double slept = 0.0; slept < judge.interval() && !ended_; slept += 0.05) sleep_for(0.05);
  }
}

}  // namespace posenc::parallel
