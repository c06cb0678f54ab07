#include "train/gradient_buckets.h"

#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

namespace posenc::train {

std::int64_t GradientBuckets::usual_bytes(const Optimizer& optimizer) {
  constexpr std::int64_t kMegabyte = 1 << 20;
  constexpr std::int64_t kBuckets = 6;
  const auto all = static_cast<std::int64_t>(optimizer.gradient().nbytes());
  return std::clamp(all / kBuckets, kMegabyte, 25 * kMegabyte);
}

GradientBuckets::GradientBuckets(parallel::Ranks& ranks, const Optimizer& optimizer,
                                 std::int64_t bytes, const Predicate& late)
    : ranks_(ranks) {
  const std::vector<ParameterPlace> places = optimizer.places();
  const at::Tensor& all = optimizer.gradient();
  const std::int64_t most = bytes / all.element_size();
  std::int64_t end = all.numel();
  for (auto place = places.rbegin(); place != places.rend(); ++place) {
    const bool last = place + 1 == places.rend();
    if (buckets_.empty() || buckets_.back().gradient.defined()) buckets_.emplace_back();
    ++buckets_.back().parameters;
    if (!late(place->name)) watch(place->parameter, buckets_.size() - 1);
    const std::int64_t begin = last ? 0 : place->offset;
    const std::int64_t with_next = last ? 0 : end - (place + 1)->offset;
    if (last || with_next > most) {
      buckets_.back().gradient = all.narrow(0, begin, end - begin);
      end = begin;
    }
  }
}

GradientBuckets::~GradientBuckets() {
  for (const auto& [node, hook] : hooks_) node->del_post_hook(hook);
}

void GradientBuckets::watch(const at::Tensor& parameter, std::size_t bucket) {
  auto node = torch::autograd::impl::grad_accumulator(parameter);
  using torch::autograd::variable_list;
  const std::uintptr_t hook =
      node->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
          [this, bucket](const variable_list& outputs, const variable_list&) {
            note(bucket);
            return outputs;
          }));
  hooks_.emplace_back(std::move(node), hook);
}

void GradientBuckets::arm() {
  const std::lock_guard lock(mutex_);
  for (Bucket& bucket : buckets_) bucket.missing = bucket.parameters;
  next_ = 0;
  armed_ = true;
}

void GradientBuckets::note(std::size_t bucket) {
  const std::lock_guard lock(mutex_);
  if (!armed_) return;
  --buckets_[bucket].missing;
  send_ready();
}

void GradientBuckets::send_ready() {
  for (; next_ < buckets_.size() && buckets_[next_].missing == 0; ++next_) {
    buckets_[next_].exchange = ranks_.start_sum(buckets_[next_].gradient);
  }
}

// A parameter that this step did not use has no gradient: its bucket waits for this.
void GradientBuckets::finish() {
  const std::lock_guard lock(mutex_);
  armed_ = false;
  sent_early_ = next_;
  for (Bucket& bucket : buckets_) bucket.missing = 0;
  send_ready();
  for (Bucket& bucket : buckets_) {
    ranks_.wait(*bucket.exchange);
    bucket.exchange.reset();
  }
}

}  // namespace posenc::train
