// The scan of linear attention, forward and backward, on float32 rows in device memory:
//
//   out[n, i] = SUM_j <a[n, i], b[n, j]> c[n, j]         over j <= i, j >= i, or all j
//
// a and b are [count, tokens, features], c and out [count, tokens, values], all dense. Time and memory
// are linear in the tokens. The first launch computes a sum of b c^T per segment of tokens, the second their
// prefix sums, and the third processes every segment in chunks from its prefix sum. Sums have a fixed order:
// bitwise identical in every run.
#pragma once

#include <cstddef>

#include "kernels/cuda/launch.h"

namespace posenc::cuda {

inline constexpr int kMostScanFeatures = 320;

enum class ScanSees { kEarlier, kLater, kAll };

struct LinearScan {
  const float* a = nullptr;
  const float* b = nullptr;
  const float* c = nullptr;
  float* out = nullptr;
  std::int64_t count = 0;
  std::int64_t tokens = 0;
  int features = 0;
  int values = 0;
  ScanSees sees = ScanSees::kEarlier;
  void* workspace = nullptr;  // linear_scan_bytes()
};

std::size_t linear_scan_bytes(const LinearScan& scan);
Status linear_scan(const LinearScan& scan, Stream stream) noexcept;

}  // namespace posenc::cuda
