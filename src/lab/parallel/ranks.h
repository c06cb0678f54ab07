// The processes of one training. Every rank makes the same calls in the same order. If a rank throws, dies or hangs, all
// ranks end.
//
//   Ranks ranks(launch, {.device = device, .timeout_s = 600, .on_failure = print});
//   ranks.require_same("config", hash, "start all ranks with one config");
//   ranks.sum(gradient);
//   ranks.leave();
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "parallel/group.h"
#include "parallel/watch.h"

namespace posenc::parallel {

struct RanksOptions {
  at::Device device = at::kCPU;
  double timeout_s = 600.0;
  // A rank has failed: called on another thread, on every rank; then end(), which ends the process.
  std::function<void(const Failure&)> on_failure;
  std::function<void(const Failure&)> end;
};

// What a rank throws that cannot join because another one has failed.
class OtherRankFailed : public std::runtime_error {
 public:
  explicit OtherRankFailed(Failure failure)
      : std::runtime_error(failure.text), failure_(std::move(failure)) {}
  [[nodiscard]] const Failure& failure() const { return failure_; }

 private:
  Failure failure_;
};

class Ranks {
 public:
  // Waits for all ranks; an Error names those that are missing after the timeout. OtherRankFailed where one of them has
  // reported why it does not come (report_early()).
  Ranks(const Launch& launch, RanksOptions options);
  ~Ranks();
  Ranks(Ranks&&) = delete;
  Ranks& operator=(Ranks&&) = delete;

  [[nodiscard]] const Launch& launch() const { return launch_; }
  [[nodiscard]] int rank() const { return launch_.rank; }
  [[nodiscard]] int world() const { return launch_.world; }
  [[nodiscard]] bool leads() const { return launch_.leads(); }
  [[nodiscard]] at::Device device() const { return options_.device; }

  // An Error on rank 0 where another rank has another text; the others end with it.
  void require_same(const std::string& what, const std::string& mine, const std::string& hint);

  // Over all ranks, in place, on any device.
  void sum(at::Tensor& x);
  void broadcast(at::Tensor& x);  // rank 0's
  std::string broadcast(const std::string& text);
  [[nodiscard]] std::vector<at::Tensor> gather(const at::Tensor& x);
  [[nodiscard]] bool any(bool mine);
  // Not waited for: x is dense and on the ranks' device. Its wait() is to be called through wait().
  [[nodiscard]] std::unique_ptr<Exchange> start_sum(const at::Tensor& x);
  void gather(const at::Tensor& x, const std::vector<at::Tensor>& into);
  void wait(Exchange& exchange);
  // Messages between two ranks, not waited for: x is dense, on the ranks' device, and stays as it is until then. Ranks may
  // make different numbers of them, so they do not count among the exchanges that all ranks must enter.
  [[nodiscard]] std::unique_ptr<Exchange> start_send(const at::Tensor& x, int to, int tag);
  [[nodiscard]] std::unique_ptr<Exchange> start_receive(const at::Tensor& x, int from, int tag);

  // This rank has failed: the others learn why and end. Returns the failure that came first in the job, which may be
  // another rank's. The process is to end after this.
  Failure report(const std::string& text, bool mistake);
  // True for the first caller: one line for one failure, whichever thread comes first.
  [[nodiscard]] bool take_last_word() { return !said_.exchange(true); }
  // What else to do on this rank when another one has failed, before the process ends.
  void set_note(std::function<void(const Failure&)> note);
  // All ranks are done: rank 0 stays until the others have left.
  void leave();

 private:
  void end_with(const Failure& failure);
  template <class Start>
  void exchange(const Start& start);
  template <class Start>
  std::unique_ptr<Exchange> started(const Start& start);

  Launch launch_;
  RanksOptions options_;
  Board board_;
  std::unique_ptr<Watch> watch_;
  std::unique_ptr<Group> group_;
  std::atomic<bool> said_ = false;
  std::mutex note_mutex_;
  std::function<void(const Failure&)> note_;
};

}  // namespace posenc::parallel
