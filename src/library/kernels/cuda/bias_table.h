// Computes the table of biases by distance that attention adds to scores, from the formulas of the encodings.
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

// The bias of a head at entry n of the table. In float64, as on the CPU: a table is small.
template <DistanceBias E>
POSENC_HOST_DEVICE float value_at(const E& formula, const ParameterStrides& strides,
                                  const BiasReads& reads, const DistanceTable& table, int head,
                                  std::int64_t n) {
  static_assert(E::kReads <= kMostReads);
  const std::int64_t entry = reads.entries == nullptr ? 0 : reads.entries[n];
  const std::int64_t place = entry * strides.entry + head * strides.head;
  std::array<double, E::kReads> x;
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = reads.parameters[i][place];
  return static_cast<float>(formula.value(x, static_cast<double>(n - table.before)));
}

// Writes the bias to the table if it is the first, else adds it.
Status add_to_table(const Encoding& encoding, const BiasReads& reads, const DistanceTable& table,
                    bool first, Stream stream) noexcept;

}  // namespace posenc::cuda
