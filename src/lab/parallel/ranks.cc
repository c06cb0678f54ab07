#include "parallel/ranks.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <thread>

#include "posenc/core/error.h"

namespace posenc::parallel {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kFarewell = 2.0;    // seconds that rank 0 keeps the table for the others
constexpr double kLateRanks = 20.0;  // of which one that failed early is reported
// The watch ends a job that hangs. The transport's own clock goes on while a job is suspended, so its limit is far away.
constexpr double kTransportLimit = 30.0 * 24 * 3600;
constexpr auto kPoll = std::chrono::milliseconds(20);

std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(1000.0 * seconds));
}

Clock::time_point after(double seconds) { return Clock::now() + milliseconds_of(seconds); }

Error missing_ranks(const std::vector<int>& ranks, double timeout_s) {
  return {
      ErrorKind::kIo,
      {.scope = "rendezvous",
       .key = "",
       .rule = fmt::format("{} {} did not join within {:g} s", ranks.size() == 1 ? "rank" : "ranks",
                           fmt::join(ranks, ", "), timeout_s),
       .value = "",
       .hint = "check that all ranks were started, or raise train.timeout"}};
}

}  // namespace

Ranks::Ranks(const Launch& launch, RanksOptions options)
    : launch_(launch),
      options_(std::move(options)),
      board_(Board::open(launch, milliseconds_of(options_.timeout_s))) {
  require_same("world", std::to_string(launch.world), "start all ranks with one launcher");
  watch_ = std::make_unique<Watch>(launch_, board_.again(), options_.timeout_s,
                                   [this](const Failure& failure) { end_with(failure); });
  group_ = Group::make(launch_, board_, options_.device, milliseconds_of(kTransportLimit));
  (void)any(false);  // connections are made here, not in step 1
}

Ranks::~Ranks() = default;

// Through the table, not the group: it must work before there is one, and name the rank.
void Ranks::require_same(const std::string& what, const std::string& mine,
                         const std::string& hint) {
  const auto key = [&](int rank) { return fmt::format("same/{}/{}", what, rank); };
  const std::string agreed = fmt::format("same/{}/agreed", what);
  const auto end = after(options_.timeout_s);
  if (!leads()) {
    board_.set(key(rank()), mine);
    while (!board_.has(agreed) && !failure_of(board_) && Clock::now() < end) {
      std::this_thread::sleep_for(kPoll);
    }
    if (board_.has(agreed)) return;
    const auto failure = failure_of(board_);
    if (!failure) throw missing_ranks({0}, options_.timeout_s);
    if (!watch_) note_end(board_);
    throw OtherRankFailed(*failure);
  }
  std::vector<int> missing;
  for (int r = 1; r < world(); ++r) {
    while (!board_.has(key(r)) && Clock::now() < end) {
      if (const auto failure = failure_of(board_)) {
        // Those that have not joined yet find the failure in the table.
        if (!watch_ && !launch_.store_exists) wait_for_ends(board_, world() - 1, kLateRanks);
        throw OtherRankFailed(*failure);
      }
      std::this_thread::sleep_for(kPoll);
    }
    const auto theirs = board_.find(key(r));
    if (!theirs) missing.push_back(r);
    if (!theirs || *theirs == mine) continue;
    throw Error(ErrorKind::kConflict,
                {.scope = "ranks",
                 .key = what,
                 .rule = "must be the same on all ranks",
                 .value = fmt::format("'{}' on rank {} and '{}' on rank 0", *theirs, r, mine),
                 .hint = hint});
  }
  if (!missing.empty()) throw missing_ranks(missing, options_.timeout_s);
  board_.set(agreed, "yes");
}

// What fails here failed because of another rank: the watch finds out which.
template <class Start>
void Ranks::exchange(const Start& start) {
  watch_->note_exchange();
  try {
    start()->wait();
  } catch (const std::exception&) {
    watch_->wait_for_verdict();
    throw;
  }
}

template <class Start>
std::unique_ptr<Exchange> Ranks::started(const Start& start) {
  try {
    return start();
  } catch (const std::exception&) {
    watch_->wait_for_verdict();
    throw;
  }
}

std::unique_ptr<Exchange> Ranks::start_send(const at::Tensor& x, int to, int tag) {
  return started([&] { return group_->send(x, to, tag); });
}

std::unique_ptr<Exchange> Ranks::start_receive(const at::Tensor& x, int from, int tag) {
  return started([&] { return group_->receive(x, from, tag); });
}

void Ranks::wait(Exchange& exchange) {
  try {
    exchange.wait();
  } catch (const std::exception&) {
    watch_->wait_for_verdict();
    throw;
  }
}

std::unique_ptr<Exchange> Ranks::start_sum(const at::Tensor& x) {
  watch_->note_exchange();
  try {
    return group_->sum(x);
  } catch (const std::exception&) {
    watch_->wait_for_verdict();
    throw;
  }
}

void Ranks::sum(at::Tensor& x) {
  at::Tensor here = x.to(options_.device).contiguous();
  exchange([&] { return group_->sum(here); });
  if (!here.is_same(x)) x.copy_(here);
}

void Ranks::broadcast(at::Tensor& x) {
  at::Tensor here = x.to(options_.device).contiguous();
  exchange([&] { return group_->broadcast(here, 0); });
  if (!here.is_same(x)) x.copy_(here);
}

std::string Ranks::broadcast(const std::string& text) {
  at::Tensor size = at::full({1}, static_cast<std::int64_t>(text.size()), at::kLong);
  broadcast(size);
  at::Tensor bytes = at::zeros({size.item<std::int64_t>()}, at::kByte);
  if (leads()) std::copy(text.begin(), text.end(), bytes.data_ptr<std::uint8_t>());
  if (bytes.numel() > 0) broadcast(bytes);
  const auto* data = bytes.data_ptr<std::uint8_t>();
  return {data, data + bytes.numel()};
}

void Ranks::gather(const at::Tensor& x, const std::vector<at::Tensor>& into) {
  exchange([&] { return group_->gather(x, into); });
}

std::vector<at::Tensor> Ranks::gather(const at::Tensor& x) {
  const at::Tensor here = x.to(options_.device).contiguous();
  std::vector<at::Tensor> all;
  for (int r = 0; r < world(); ++r) all.push_back(at::empty_like(here));
  gather(here, all);
  for (at::Tensor& part : all) part = part.to(x.device());
  return all;
}

bool Ranks::any(bool mine) {
  at::Tensor flag = at::full({1}, mine ? 1.0 : 0.0, at::kDouble);
  sum(flag);
  return flag.item<double>() > 0.0;
}

Failure Ranks::report(const std::string& text, bool mistake) {
  Failure mine{.rank = rank(), .text = text, .own = true, .mistake = mistake};
  try {
    Failure first = report_failure(board_, mine);
    if (leads() && !launch_.store_exists) wait_for_ends(board_, world() - 1, kFarewell);
    return first;
  } catch (const std::exception&) {  // no one is left to tell
    return mine;
  }
}

void Ranks::set_note(std::function<void(const Failure&)> note) {
  const std::lock_guard lock(note_mutex_);
  note_ = std::move(note);
}

void Ranks::end_with(const Failure& failure) {
  const bool first = take_last_word();
  if (first && options_.on_failure) options_.on_failure(failure);
  try {
    const std::lock_guard lock(note_mutex_);
    if (first && note_) note_(failure);
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): a full disk changes nothing
  }
  try {
    const Board own = board_.again();
    if (!leads()) note_end(own);
    if (leads() && !launch_.store_exists) wait_for_ends(own, world() - 2, kFarewell);
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): no one is left to tell
  }
  if ((first || !leads()) && options_.end) options_.end(failure);
}

void Ranks::leave() {
  (void)any(false);  // all are here
  watch_.reset();
  if (!leads()) {
    note_end(board_);
  } else if (!launch_.store_exists) {
    wait_for_ends(board_, world() - 1, 5 * kFarewell);
  }
}

}  // namespace posenc::parallel
