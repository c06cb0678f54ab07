// The gradients of all processes, added up while the backward pass still computes: the vector of gradients is cut into
// buckets from its end, where a backward pass begins, and a bucket goes on its way when all its parameters have theirs.
#pragma once

#include <torch/csrc/autograd/function.h>

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "parallel/ranks.h"
#include "train/optimizer.h"

namespace posenc::train {

class GradientBuckets {
 public:
  using Predicate = std::function<bool(const std::string& parameter)>;
  // `bytes` of a bucket at most, unless one parameter has more. `late`: parameters that a backward pass adds to more than
  // once; their buckets are sent at the end.
  GradientBuckets(parallel::Ranks& ranks, const Optimizer& optimizer, std::int64_t bytes,
                  const Predicate& late);
  ~GradientBuckets();
  GradientBuckets(GradientBuckets&&) = delete;
  GradientBuckets& operator=(GradientBuckets&&) = delete;

  // The next backward pass is the last one of a step.
  void arm();
  // Sends what has not been sent, and waits for all of it: the vector holds the sums.
  void finish();

  [[nodiscard]] std::size_t count() const { return buckets_.size(); }
  // Of the last step, those that were sent before finish().
  [[nodiscard]] std::size_t sent_early() const { return sent_early_; }

  // As large as lets a backward pass overlap: a part of the vector, and 25 MB at the most.
  static std::int64_t usual_bytes(const Optimizer& optimizer);

 private:
  struct Bucket {
    at::Tensor gradient;  // a piece of the vector
    std::size_t parameters = 0;
    std::size_t missing = 0;
    std::unique_ptr<parallel::Exchange> exchange;
  };
  void watch(const at::Tensor& parameter, std::size_t bucket);
  void note(std::size_t bucket);
  void send_ready();  // in the order of the buckets, on every rank

  parallel::Ranks& ranks_;
  std::vector<Bucket> buckets_;
  // Of each parameter: the node that adds to its gradient, and the hook after it.
  std::vector<std::pair<std::shared_ptr<torch::autograd::Node>, std::uintptr_t>> hooks_;
  std::mutex mutex_;
  std::size_t next_ = 0;  // the first bucket that was not sent
  std::size_t sent_early_ = 0;
  bool armed_ = false;
};

}  // namespace posenc::train
