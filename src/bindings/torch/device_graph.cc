#include "torch/device_graph.h"

#include "torch/arguments.h"
#include "torch/torch_version.h"

#if defined(POSENC_TORCH_HAS_CUDA) && POSENC_TORCH_AT_LEAST(2, 4)
#define POSENC_HAS_GRAPHS 1
#include <ATen/cuda/CUDAGraph.h>
#endif

namespace posenc::ops {

#ifdef POSENC_HAS_GRAPHS

struct DeviceGraph::State {
  at::cuda::CUDAGraph graph;
  PreparedKeeper::Kept kept;  // what the graph reads and others own
};

DeviceGraph::DeviceGraph() : state_(std::make_unique<State>()) {}

bool DeviceGraph::available() { return true; }

void DeviceGraph::record(const std::function<void()>& work, const DeviceGraph* sharing) {
  const at::cuda::MempoolId_t pool =
      sharing == nullptr ? at::cuda::graph_pool_handle() : sharing->state_->graph.pool();
  // Other threads go on making samples meanwhile, in pinned memory that they ask the driver for.
  state_->graph.capture_begin(pool, cudaStreamCaptureModeThreadLocal);
  try {
    const PreparedKeeper keeper(&state_->kept);
    work();
  } catch (...) {
    const auto device = c10::cuda::current_device();
    try {
      state_->graph.capture_end();
    } catch (...) {  // the capture was invalid: what it had taken from the allocator is given back
      c10::cuda::CUDACachingAllocator::endAllocateToPool(device, pool);
      (void)cudaGetLastError();
    }
    throw;
  }
  state_->graph.capture_end();
}

void DeviceGraph::replay() { state_->graph.replay(); }

#else

struct DeviceGraph::State {};

DeviceGraph::DeviceGraph() = default;

bool DeviceGraph::available() { return false; }

void DeviceGraph::record(const std::function<void()>& /*work*/, const DeviceGraph* /*sharing*/) {
  TORCH_CHECK(false, "[posenc] this build's libtorch has no CUDA graphs");
}

void DeviceGraph::replay() { TORCH_CHECK(false, "[posenc] nothing was recorded"); }

#endif

DeviceGraph::~DeviceGraph() = default;

}  // namespace posenc::ops
