// What this machine does best: threads, and whether libtorch's batched products go through oneDNN.
#pragma once

#include <ATen/ATen.h>

#include "core/value.h"

namespace posenc::lab {

// Threads of libtorch, and with it of posenc's operators; below 1: as many as cores. Returns the number.
int set_threads(int threads);

// Times a batched product with oneDNN and without, takes the faster for this process, and says so in a
// sentence. Some CPUs lose a factor of two and a half with it.
std::string choose_onednn();

// For environment.json: device, oneDNN, the CPU that OpenBLAS takes this one for.
Value::Map machine_facts(at::Device device);

}  // namespace posenc::lab
