#include "parallel/procs.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <thread>

#include "parallel/board.h"
#include "system/process.h"

namespace posenc::parallel {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kAddress = "127.0.0.1";
constexpr double kMostToEnd = 10.0;  // seconds that ranks have to end after a failure
constexpr auto kPoll = std::chrono::milliseconds(20);

class Ranked {
 public:
  Ranked(const Procs& procs, const StopRequest& stop)
      : procs_(procs),
        stop_(stop),
        board_(Board::serve(kAddress, std::chrono::milliseconds(
                                          static_cast<std::int64_t>(1000 * procs.timeout_s)))) {
    for (int rank = 0; rank < procs.count; ++rank) {
      ranks_.emplace_back(command(rank));
      endings_.emplace_back();
    }
  }

  ProcsEnding wait() {
    while (running() > 0) {
      forward_signal();
      end_late_ranks();
      std::this_thread::sleep_for(kPoll);
    }
    return ending();
  }

 private:
  [[nodiscard]] Command command(int rank) const {
    return {.words = procs_.words,
            .environment = {{"RANK", std::to_string(rank)},
                            {"LOCAL_RANK", std::to_string(rank)},
                            {"WORLD_SIZE", std::to_string(procs_.count)},
                            {"LOCAL_WORLD_SIZE", std::to_string(procs_.count)},
                            {"MASTER_ADDR", kAddress},
                            {"MASTER_PORT", std::to_string(board_.port())},
                            {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                            {"POSENC_PROCS", "1"}},
            .own_group = true};
  }

  int running() {
    int count = 0;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      if (!endings_[r]) endings_[r] = ranks_[r].poll();
      if (!endings_[r]) {
        ++count;
      } else if (!endings_[r]->fine() && !failed_) {
        note_failure(static_cast<int>(r));
      }
    }
    return count;
  }

  // A rank that was killed could not say why; the others learn it here, and end.
  void note_failure(int rank) {
    failed_ = rank;
    failed_at_ = Clock::now();
    const Ending& ending = *endings_[static_cast<std::size_t>(rank)];
    if (ending.signal != 0) {
      (void)report_failure(board_, {.rank = rank, .text = "ended by " + ending_text(ending)});
    }
    if (ending.signal == 0 && !failure_of(board_)) {
      (void)report_failure(board_, {.rank = rank, .text = ending_text(ending)});
      before_joining_ = true;
    }
  }

  void forward_signal() {
    if (!stop_.requested() || forwarded_) return;
    forwarded_ = true;
    const int number = stop_.signal_number();
    for (const Process& rank : ranks_) rank.signal(number == SIGALRM ? SIGTERM : number);
  }

  // The ranks end by themselves when one has failed; a rank that cannot is killed.
  void end_late_ranks() {
    if (!failed_) return;
    const auto waited = std::chrono::duration<double>(Clock::now() - failed_at_).count();
    if (waited < std::min(procs_.timeout_s / 4, kMostToEnd)) return;
    for (const Process& rank : ranks_) rank.signal(SIGKILL);
  }

  [[nodiscard]] ProcsEnding ending() const {
    if (!failed_) return {};
    const std::optional<Failure> failure = failure_of(board_);
    const int rank = failure ? failure->rank : *failed_;
    const auto& first = endings_[static_cast<std::size_t>(rank)];
    // Rank 0 speaks for itself. What is wrong before ranks have joined is wrong on all of them.
    const bool by_rank_0 = failure && failure->rank == 0 && failure->own;
    const bool for_all = before_joining_ && endings_[0]->signal == 0 && endings_[0]->code != 0;
    const bool said = by_rank_0 || for_all || rank_0_has_spoken(board_);
    const int code = first->signal != 0 || first->code == 0 ? 1 : first->code;
    if (said || !failure) return {code, ""};
    return {code, fmt::format("rank {} failed: {}", rank, failure->text)};
  }

  const Procs& procs_;
  const StopRequest& stop_;
  Board board_;
  std::vector<Process> ranks_;
  std::vector<std::optional<Ending>> endings_;
  std::optional<int> failed_;
  Clock::time_point failed_at_;
  bool forwarded_ = false;
  bool before_joining_ = false;  // the rank that failed had not said anything
};

}  // namespace

ProcsEnding run_procs(const Procs& procs, const StopRequest& stop) {
  return Ranked(procs, stop).wait();
}

}  // namespace posenc::parallel
