// The fraction of the time in which the GPU is busy.
#pragma once

#include <functional>
#include <optional>

namespace posenc::bench {

// Seconds in which at least one kernel or copy of `work` ran, as CUPTI reports them through libtorch's profiler.
// Nothing without a libtorch that has it. `work` waits for the GPU itself.
std::optional<double> gpu_busy_seconds_of(const std::function<void()>& work);

}  // namespace posenc::bench
