// CUDA graphs: work that is captured once and replayed with one call. A training step of a small model has several hundred
// kernels of a few microseconds each, and launching them takes longer than running them.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <memory>

namespace posenc::ops {

class DeviceGraph {
 public:
  DeviceGraph();
  ~DeviceGraph();
  DeviceGraph(DeviceGraph&&) = delete;
  DeviceGraph& operator=(DeviceGraph&&) = delete;

  // Whether this build has them.
  static bool available();
  // Records what `work` queues on the current stream, which must not be the default one. Nothing is computed.
  // Tensors made within belong to the graph; graphs that share memory with `sharing` may overwrite them when
  // they are replayed. Work that waits for the GPU, or that has never run before on this stream, cannot be
  // recorded: an Error.
  void record(const std::function<void()>& work, const DeviceGraph* sharing = nullptr);
  // Queues it again, on the current stream.
  void replay();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace posenc::ops
