#include "lab/machine.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "core/restart.h"
#include "runs/memory.h"

namespace posenc::lab {
namespace {

// A small gain is not worth a choice that differs from one start to the next.
constexpr double kClearly = 1.3;

double product_seconds(bool onednn, const at::Tensor& a, const at::Tensor& b) {
  at::globalContext().setUserEnabledMkldnn(onednn);
  double best = 1e9;
  for (int i = 0; i < 4; ++i) {
    const auto start = std::chrono::steady_clock::now();
    at::bmm(a, b);
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    best = std::min(best, passed.count());
  }
  return best;
}

}  // namespace

int set_threads(int threads) {
  const int count =
      threads >= 1 ? threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  at::set_num_threads(count);
  set_openblas_threads(count);
  return count;
}

std::string set_onednn(OneDnn choice) {
  if (!at::Context::hasMKLDNN()) return "libtorch has no oneDNN";
  if (choice != OneDnn::kAuto) {
    at::globalContext().setUserEnabledMkldnn(choice == OneDnn::kOn);
    return choice == OneDnn::kOn ? "oneDNN on, as told" : "oneDNN off, as told";
  }
  const at::NoGradGuard quiet;
  const at::Tensor a = at::rand({16, 128, 64});
  const at::Tensor b = at::rand({16, 64, 128});
  const double with = product_seconds(true, a, b);
  const double without = product_seconds(false, a, b);
  const bool on = kClearly * with < without;
  at::globalContext().setUserEnabledMkldnn(on);
  return fmt::format("oneDNN {}: a batched product takes {:.0f} us with it and {:.0f} without",
                     on ? "on" : "off", 1e6 * with, 1e6 * without);
}

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
