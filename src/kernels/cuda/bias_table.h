// Biases by distance as a table over distances, from the encodings' own formulas: what attention adds to scores.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/cuda/launch.h"
#include "posenc/encodings/encoding.h"

namespace posenc::cuda {

inline constexpr int kMostReads = 2;

// What the formula reads (posenc/encodings/distance_bias.h), in device memory.
struct BiasReads {
  std::array<const float*, kMostReads> parameters{};
  const std::int64_t* entries = nullptr;  // [span], of a formula that reads entries
};

struct DistanceTable {
  float* values = nullptr;  // [heads, span]
  int heads = 0;
  std::int64_t before = 0;  // entry n is distance n - before
  std::int64_t span = 0;
};

// Writes the bias to the table if it is the first, else adds it.
Status add_to_table(const Encoding& encoding, const BiasReads& reads, const DistanceTable& table,
                    bool first, Stream stream) noexcept;

}  // namespace posenc::cuda
