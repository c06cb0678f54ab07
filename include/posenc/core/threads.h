// How many threads the kernels use. One pool serves the process; it starts with the first kernel.
#pragma once

namespace posenc {

// At least 1. A count below 1 means the default: as many as the machine has cores. Not while a kernel
// runs: kernels make room for as many threads as there are when they start.
void set_num_threads(int threads);
int num_threads() noexcept;

}  // namespace posenc
