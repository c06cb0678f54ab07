#include "parallel/group.h"

#include <cstdlib>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "posenc/core/error.h"
#include "torch/torch_version.h"

#if POSENC_TORCH_AT_LEAST(2, 0)
#include <torch/csrc/distributed/c10d/Backend.hpp>
#endif
// libtorch's headers are empty without these, whatever libtorch itself was built with.
#if POSENC_HAS_GLOO
#ifndef USE_C10D_GLOO
#define USE_C10D_GLOO
#endif
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#endif
#if POSENC_HAS_NCCL
#ifndef USE_C10D_NCCL
#define USE_C10D_NCCL
#endif
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif

namespace posenc::parallel {
namespace {

// What ProcessGroupGloo and ProcessGroupNCCL derive from.
#if POSENC_TORCH_AT_LEAST(2, 0)
using Engine = c10d::Backend;
#else
using Engine = c10d::ProcessGroup;
#endif
using EnginePointer = c10::intrusive_ptr<Engine>;
using StorePointer = c10::intrusive_ptr<c10d::Store>;

class C10dExchange final : public Exchange {
 public:
  explicit C10dExchange(c10::intrusive_ptr<c10d::Work> work) : work_(std::move(work)) {}
  void wait() override { work_->wait(); }

 private:
  c10::intrusive_ptr<c10d::Work> work_;
};

class C10dGroup final : public Group {
 public:
  explicit C10dGroup(EnginePointer engine) : engine_(std::move(engine)) {}

  std::unique_ptr<Exchange> sum(const at::Tensor& x) override {
    std::vector<at::Tensor> tensors = {x};
    return std::make_unique<C10dExchange>(engine_->allreduce(tensors));
  }
  std::unique_ptr<Exchange> broadcast(const at::Tensor& x, int from) override {
    std::vector<at::Tensor> tensors = {x};
    c10d::BroadcastOptions options;
    options.rootRank = from;
    return std::make_unique<C10dExchange>(engine_->broadcast(tensors, options));
  }
  std::unique_ptr<Exchange> gather(const at::Tensor& x,
                                   const std::vector<at::Tensor>& into) override {
    std::vector<std::vector<at::Tensor>> outputs = {into};
    std::vector<at::Tensor> inputs = {x};
    return std::make_unique<C10dExchange>(engine_->allgather(outputs, inputs));
  }
  std::unique_ptr<Exchange> send(const at::Tensor& x, int to, int tag) override {
    std::vector<at::Tensor> tensors = {x};
    return std::make_unique<C10dExchange>(engine_->send(tensors, to, tag));
  }
  std::unique_ptr<Exchange> receive(const at::Tensor& x, int from, int tag) override {
    std::vector<at::Tensor> tensors = {x};
    return std::make_unique<C10dExchange>(engine_->recv(tensors, from, tag));
  }

 private:
  EnginePointer engine_;
};

Error missing_backend(const char* name, const char* hint) {
  return {ErrorKind::kUnsupported,
          {.scope = "parallel",
           .key = name,
           .rule = "is missing in this build, which cannot train with several processes on this "
                   "device",
           .value = "",
           .hint = hint}};
}

#if POSENC_HAS_GLOO
// GLOO_SOCKET_IFNAME names the network, as for PyTorch. Ranks of one host need none.
std::shared_ptr<::gloo::transport::Device> gloo_device(const Launch& launch) {
  const char* name = std::getenv("GLOO_SOCKET_IFNAME");  // NOLINT(concurrency-mt-unsafe)
  if (name != nullptr && *name != '\0') {
    return c10d::ProcessGroupGloo::createDeviceForInterface(name);
  }
  if (launch.local_world == launch.world) {
    return c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1");
  }
  return c10d::ProcessGroupGloo::createDefaultDevice();
}

EnginePointer gloo_engine(const Launch& launch, const StorePointer& store,
                          std::chrono::milliseconds timeout) {
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  options->devices.push_back(gloo_device(launch));
  options->threads = 1;  // one stream of work in a fixed order
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, launch.rank, launch.world, options);
}
#else
EnginePointer gloo_engine(const Launch&, const StorePointer&, std::chrono::milliseconds) {
  throw missing_backend("gloo", "install the headers of Gloo (libgloo-dev) and build again");
}
#endif

#if POSENC_HAS_NCCL
EnginePointer nccl_engine(const Launch& launch, const StorePointer& store,
                          std::chrono::milliseconds timeout) {
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = timeout;
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, launch.rank, launch.world, options);
}
#else
EnginePointer nccl_engine(const Launch&, const StorePointer&, std::chrono::milliseconds) {
  throw missing_backend("nccl", "build with a PyTorch for CUDA and the headers of NCCL (nccl.h)");
}
#endif

}  // namespace

void require_backend(at::Device device) {
#if !POSENC_HAS_GLOO
  if (device.is_cpu()) (void)gloo_engine({}, {}, {});
#endif
#if !POSENC_HAS_NCCL
  if (device.is_cuda()) (void)nccl_engine({}, {}, {});
#endif
  (void)device;
}

std::string backends() {
  std::string names;
#if POSENC_HAS_GLOO
  names = "gloo";
#endif
#if POSENC_HAS_NCCL
  names += names.empty() ? "nccl" : ", nccl";
#endif
  return names.empty() ? "none" : names;
}

std::unique_ptr<Group> Group::make(const Launch& launch, const Board& board, at::Device device,
                                   std::chrono::milliseconds timeout) {
  const StorePointer store = c10::make_intrusive<c10d::PrefixStore>("group", board.store());
  return std::make_unique<C10dGroup>(device.is_cuda() ? nccl_engine(launch, store, timeout)
                                                      : gloo_engine(launch, store, timeout));
}

}  // namespace posenc::parallel
