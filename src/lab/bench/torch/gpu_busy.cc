#include "bench/torch/gpu_busy.h"

#include "torch/torch_version.h"

#if POSENC_TORCH_AT_LEAST(2, 4)
#include <torch/csrc/autograd/profiler_kineto.h>

#include <algorithm>
#include <utility>
#include <vector>
#endif

namespace posenc::bench {

#if POSENC_TORCH_AT_LEAST(2, 4)

namespace {

using Interval = std::pair<std::uint64_t, std::uint64_t>;  // nanoseconds

double covered_seconds(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end());
  std::uint64_t covered = 0;
  std::uint64_t reached = 0;
  for (const auto& [begin, end] : intervals) {
    if (end <= reached) continue;
    covered += end - std::max(begin, reached);
    reached = end;
  }
  return 1e-9 * static_cast<double>(covered);
}

}  // namespace

std::optional<double> gpu_busy_seconds_of(const std::function<void()>& work) {
  namespace profiler = torch::autograd::profiler;
  const profiler::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO);
  const std::set<torch::profiler::impl::ActivityType> on_gpu = {
      torch::profiler::impl::ActivityType::CUDA};
  profiler::prepareProfiler(config, on_gpu);
  profiler::enableProfiler(config, on_gpu);
  work();
  const auto result = profiler::disableProfiler();
  std::vector<Interval> intervals;
  for (const auto& event : result->events()) {
    if (event.deviceType() != c10::DeviceType::CUDA) continue;
    intervals.emplace_back(event.startNs(), event.startNs() + event.durationNs());
  }
  if (intervals.empty()) return std::nullopt;
  return covered_seconds(std::move(intervals));
}

#else

std::optional<double> gpu_busy_seconds_of(const std::function<void()>& /*work*/) {
  return std::nullopt;
}

#endif

}  // namespace posenc::bench
