// The workspace of the backward, and the queries that one launch covers.
#pragma once

#include "kernels/cuda/attention.h"

namespace posenc::cuda {

struct BackwardSpace {
  float* delta = nullptr;  // [B, H, Tq]: SUM over channels of grad_out * out
  // CoPE, of one chunk of queries. A tile of keys begins with these sums: of the gates after it, and of
  // the positions' gradients before it: [sequences, H, key tiles, chunk]. Stick-breaking: what the keys after it
  // leave (bits of a float), and the sum of weights times their gradients before it.
  std::uint32_t* carries = nullptr;
  float* prefixes = nullptr;
  int* first_counting =
      nullptr;  // [sequences, H, chunk / 64]: tiles before are saturated, or get nothing
  float* logits = nullptr;  // z: [sequences, H, chunk, logit_stride]
  // Partial sums of parameters' gradients, one per warpgroup that adds to them.
  float* dtoeplitz = nullptr;  // [sequences, slots, groups, H, span]
  // [sequences, H, slots, groups, entries], also of queries times distances; with a table per head
  // [sequences, slots, H, entries].
  float* dembedding = nullptr;
  // The general kernels' own, per block of threads: gradients of the logits of 64 rows, of FIRE's
  // segments for 64 rows, and partial sums of the latter.
  float* dlogits = nullptr;          // [sequences, H, slots, 64, logit_stride]
  float* relative_tables = nullptr;  // of 64 rows, shaped as dlogits
  float* fire_rows = nullptr;        // [sequences, H, slots, 64, segments, 2]
  float* dfire_segments = nullptr;   // [sequences, slots, H, segments, 2]
  // Sums over chunks where there are several: [B, Hkv, Tk, D].
  float* dk = nullptr;
  float* dv = nullptr;
  float* dgate_k = nullptr;
  // Of the tuned kernels, what their results are not finite in (device/marks.cuh).
  std::uint32_t* query_marks = nullptr;  // [sequences, H, chunk / 64]
  std::uint32_t* key_marks = nullptr;    // [sequences, Hkv, key tiles, shares of the channels]

  int slots = 1;        // blocks of threads per head and sequence that share the rows
  int chunk = 0;        // queries per launch
  int key_tiles = 0;    // of the longest sequence
  int first_query = 0;  // of the launch's chunk, in each sequence
  bool first_chunk = true;
  bool last_chunk = true;
};

}  // namespace posenc::cuda
