#include "lab/machine.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <dlfcn.h>

#include <algorithm>
#include <thread>

#include "core/restart.h"
#include "runs/memory.h"

namespace posenc::lab {
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
    const auto bytes = runs::available_memory_bytes();
    return bytes ? std::optional(static_cast<double>(*bytes)) : std::nullopt;
  }
  // By name: this program is built without CUDA's headers, and libtorch brings the library.
  using MemGetInfo = int (*)(std::size_t*, std::size_t*);
  const auto get = reinterpret_cast<MemGetInfo>(::dlsym(RTLD_DEFAULT, "cudaMemGetInfo"));
  std::size_t left = 0;
  std::size_t all = 0;
  if (get == nullptr || get(&left, &all) != 0) return std::nullopt;
  return static_cast<double>(left);
}

Value::Map machine_facts(at::Device device) {
  return {{"device", Value::of_string(device.str())},
          {"onednn", Value(Value::Data(at::globalContext().userEnabledMkldnn()))},
          {"openblas", Value::of_string(openblas_core())}};
}

}  // namespace posenc::lab
