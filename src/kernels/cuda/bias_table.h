// The sum of Toeplitz biases as a table over distances, in one launch: what attention adds to scores.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/cuda/launch.h"

namespace posenc::cuda {

struct BiasTerm {
  // alibi: -first |d| (or of max(d, 0), one_sided); kerple: of p = first and a = second; entries: the
  // weight that each distance reads.
  enum class Form : std::uint8_t { kAlibi, kKerpleLog, kKerplePower, kEntries };
  Form form = Form::kAlibi;
  bool one_sided = false;
  const float* first = nullptr;           // [heads], or the weights of entries
  const float* second = nullptr;          // [heads]
  const std::int64_t* entries = nullptr;  // [span]
  std::int64_t entry_stride = 0;
  std::int64_t head_stride = 0;
};

inline constexpr int kMostBiasTerms = 8;

struct BiasTableFill {
  std::array<BiasTerm, kMostBiasTerms> terms;
  int count = 0;
  int heads = 0;
  std::int64_t before = 0;  // entry n is distance n - before
  std::int64_t span = 0;
  float* table = nullptr;  // [heads, span]
};

Status fill_bias_table(const BiasTableFill& fill, Stream stream) noexcept;

}  // namespace posenc::cuda
