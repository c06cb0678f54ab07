// The kernels run on the threads of libtorch.
#include "core/thread_pool.h"
#include "torch/tensor.h"

namespace posenc::ops {
namespace {

// libtorch's threads are there already, and wait by spinning: a second pool would have to fight them for
// the cores. Its number of threads holds for the operators too.
void on_torch_threads(int workers, TaskRef work) {
  at::parallel_for(0, workers, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t w = begin; w < end; ++w) work(w, static_cast<int>(w));
  });
}
[[maybe_unused]] const bool kOnTorchThreads = [] {
  set_executor(on_torch_threads);
  return true;
}();

}  // namespace
}  // namespace posenc::ops
