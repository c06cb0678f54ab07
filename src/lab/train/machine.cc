#include "train/machine.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <thread>

#include "posenc/core/error.h"
#include "system/memory.h"
#include "system/restart.h"
#include "torch/torch_version.h"

#if POSENC_TORCH_AT_LEAST(2, 9)
#include <c10/core/CachingDeviceAllocator.h>
#endif

namespace posenc::train {
namespace {

// The part of a GPU's memory that a sweep leaves to each of its jobs.
double gpu_share() {
  const char* text = std::getenv("POSENC_GPU_SHARE");  // NOLINT(concurrency-mt-unsafe)
  const double share = text == nullptr ? 1.0 : std::strtod(text, nullptr);
  return share > 0.0 && share < 1.0 ? share : 1.0;
}

}  // namespace

int cores() { return std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN))); }
int own_cores() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

void use_device_of_rank(at::Device device, const parallel::Launch& launch) {
  if (!device.is_cuda()) return;
  const c10::impl::VirtualGuardImpl guard(device.type());
  const int devices = static_cast<unsigned char>(guard.deviceCount());
  if (launch.local_rank >= devices && devices > 1) {
    throw Error(
        ErrorKind::kUnsupported,
        {.scope = "train",
         .key = "device",
         .rule = fmt::format("has {} GPUs on this host for {} ranks", devices, launch.local_world),
         .value = "cuda",
         .hint = "start one rank per GPU"});
  }
  const int index = devices > 1 ? launch.local_rank : 0;
  guard.setDevice(at::Device(device.type(), static_cast<c10::DeviceIndex>(index)));
}

int set_threads(int threads) {
  const int count =
      threads >= 1 ? threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  at::set_num_threads(count);
  set_openblas_threads(count);
  return count;
}

void set_onednn(bool on) { at::globalContext().setUserEnabledMkldnn(on); }

std::optional<double> available_bytes(at::Device device) {
  if (device.is_cpu()) {
    const auto bytes = available_memory_bytes();
    return bytes ? std::optional(static_cast<double>(*bytes)) : std::nullopt;
  }
  // By name: this program is built without CUDA's headers, and libtorch brings the library.
  using MemGetInfo = int (*)(std::size_t*, std::size_t*);
  const auto get = reinterpret_cast<MemGetInfo>(::dlsym(RTLD_DEFAULT, "cudaMemGetInfo"));
  std::size_t left = 0;
  std::size_t all = 0;
  if (get == nullptr || get(&left, &all) != 0) return std::nullopt;
  return std::min(static_cast<double>(left), gpu_share() * static_cast<double>(all));
}

std::optional<std::int64_t> peak_gpu_bytes(at::Device device) {
#if POSENC_TORCH_AT_LEAST(2, 9)
  if (!device.is_cuda()) return std::nullopt;
  auto* allocator = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(device.type()));
  if (allocator == nullptr || !allocator->initialized()) return std::nullopt;
  const c10::DeviceIndex index = device.has_index() ? device.index() : c10::DeviceIndex{0};
  return allocator->getDeviceStats(index).allocated_bytes[0].peak;
#else
  (void)device;
  return std::nullopt;
#endif
}

std::string gpu_model(const std::filesystem::path& listed) {
  std::error_code error;
  std::set<std::filesystem::path> gpus;
  for (const auto& gpu : std::filesystem::directory_iterator(listed, error)) gpus.insert(gpu);
  if (gpus.empty()) return "";
  std::ifstream file(*gpus.begin() / "information");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("Model:")) return line.substr(line.find_first_not_of(" \t", 6));
  }
  return "";
}

Value::Map machine_facts(at::Device device) {
  const std::string gpu = device.is_cuda() ? gpu_model() : "";
  return {{"device", Value::of_string(device.str())},
          {"gpu", gpu.empty() ? Value() : Value::of_string(gpu)},
          {"onednn", Value(Value::Data(at::globalContext().userEnabledMkldnn()))},
          {"openblas", Value::of_string(openblas_core())}};
}

}  // namespace posenc::train
