// FIRE's tables of a call (FireTable) from its parameters in device memory, by the formulas of the encoding.
#pragma once

#include "kernels/cuda/attention.h"
#include "kernels/cuda/launch.h"
#include "kernels/fire_segments.h"

namespace posenc::cuda {

struct FireTablesCall {
  const double* parameters = nullptr;  // c, threshold_scale, w1, b1, w2, b2, one after the other
  std::int64_t width = 0;
  double init_threshold = 0.0;
  std::int64_t heads = 0;
  std::int64_t zero = 0;  // index of distance 0
  std::int64_t span = 0;  // distances
  std::int64_t lowest_place = 0;
  std::int64_t places = 0;
};

// Bytes of `memory` that fill_fire_tables() needs, aligned to 256.
std::size_t fire_tables_bytes(const FireTablesCall& call) noexcept;
// Writes the tables to `memory`, and where they are to `table`. There are width + 1 segments; those of units that never
// switch are empty and come last.
Status fill_fire_tables(const FireTablesCall& call, void* memory, FireTable& table,
                        Stream stream) noexcept;

}  // namespace posenc::cuda
