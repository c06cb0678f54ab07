// What this machine does best: threads, and whether libtorch's batched products go through oneDNN.
#pragma once

#include <c10/core/Device.h>

#include <optional>
#include <string>

#include "core/value.h"

namespace posenc::lab {

// Threads of libtorch, and with it of posenc's operators; below 1: as many as cores. Returns the number.
int set_threads(int threads);

// libtorch's batched products are up to two and a half times slower through oneDNN on some CPUs and faster
// on others. Times one both ways and takes oneDNN where it clearly wins; says so in a sentence. Results
// differ in their last bits between the two, so a run keeps its first choice: see environment.json.
enum class OneDnn { kAuto, kOn, kOff };
std::string set_onednn(OneDnn choice);

// Bytes of memory that this process can still take on the device; nothing where the system does not say.
std::optional<double> available_bytes(at::Device device);

// For environment.json: device, oneDNN, the CPU that OpenBLAS takes this one for.
Value::Map machine_facts(at::Device device);

}  // namespace posenc::lab
