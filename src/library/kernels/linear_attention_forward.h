// The forward scan over the chunks of one head. It starts from the given running sums and updates
// them.
#pragma once

#include <vector>

#include "core/aligned.h"
#include "kernels/linear_attention_rows.h"

namespace posenc {

// SUM_j k'_j v_j^T [features][row_floats(dim)], and the sum of the denominator's rows.
struct HeadSums {
  float* outer;
  float* keys;
};
inline cpu::ScanShape forward_shape(const LinearSetup& setup) {
  return {setup.features(), setup.dim};
}

// What one thread works with, allocated before the loop so that nothing can fail inside it.
class LinearForward {
 public:
  explicit LinearForward(const LinearSetup& setup);

  // Query heads head .. head + sharing - 1, which share the same rotated keys. Writes their rows.
  void run(const Segment& s, std::int64_t head, std::int64_t sharing, const HeadSums& sums);

 private:
  void read_keys(const Segment& s, std::int64_t head, const PlaceChunk& chunk,
                 const HeadSums& sums);
  void write_queries(const Segment& s, std::int64_t head, const PlaceChunk& chunk,
                     const HeadSums& sums);

  const LinearSetup& setup_;
  std::size_t capacity_;
  TokenReader reader_;
  FeatureRows queries_;
  FeatureRows keys_;
  cpu::ScanScratch scratch_;
  AlignedFloats values_;
  AlignedFloats running_;  // sums of the denominator's rows up to each key
  AlignedFloats out_;
};

// Rows of the longest chunk that a call can have.
std::size_t chunk_capacity(const LinearSetup& setup);

// Whether any query of the sequence stands in the chunk.
bool has_queries(const Segment& s, const PlaceChunk& chunk);

}  // namespace posenc
