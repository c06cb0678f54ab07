// Settings of the CPU for a run: threads, and whether libtorch's matrix products use oneDNN.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "core/value.h"
#include "parallel/launch.h"

namespace posenc::train {

// Threads of libtorch, and with it of posenc's operators; below 1: as many as cores. Returns the number.
int set_threads(int threads);

// Cores of this machine, and those that this process may run on.
int cores();
int own_cores();

// The GPU of a rank: the one with its number on this host, or the only one that it sees. Nothing on a CPU.
void use_device_of_rank(at::Device device, const parallel::Launch& launch);

// libtorch's batched products are up to two and a half times slower through oneDNN on some CPUs and faster on
// others. Results differ in their last bits, so the config decides (train.onednn), never a stopwatch.
void set_onednn(bool on);

// Bytes of memory that this process can still take on the device; nothing where the system does not say.
std::optional<double> available_bytes(at::Device device);

// The most bytes that tensors of this process have taken on a GPU; nothing on a CPU, or where libtorch does not
// say (before 2.9).
std::optional<std::int64_t> peak_gpu_bytes(at::Device device);

// The model of the first GPU that NVIDIA's driver lists; empty where there is none.
std::string gpu_model(const std::filesystem::path& listed = "/proc/driver/nvidia/gpus");

// For environment.json: device, the GPU's model, oneDNN, the CPU that OpenBLAS takes this one for.
Value::Map machine_facts(at::Device device);

}  // namespace posenc::train
