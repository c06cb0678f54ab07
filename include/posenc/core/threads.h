// The number of threads the kernels use. The process has one thread pool; the first kernel starts it.
#pragma once

namespace posenc {

// A value below 1 selects the default, one thread per core. Do not call it while a kernel runs:
// kernels allocate scratch memory for the number of threads at their start.
void set_num_threads(int threads);
int num_threads() noexcept;

}  // namespace posenc

// SPDX-License-Identifier: MIT
