// What the backward keeps in its workspace, and which queries a launch of it covers.
#pragma once

#include "kernels/cuda/attention.h"

namespace posenc::cuda {

struct BackwardSpace {
  float* delta = nullptr;  // [B, H, Tq]: SUM over channels of grad_out * out
  // CoPE, of one chunk of queries. A tile of keys begins with these sums: of the gates after it, and of
  // the positions' gradients before it: [sequences, H, key tiles, chunk].
  std::uint32_t* carries = nullptr;
  float* prefixes = nullptr;
  int* first_counting = nullptr;  // [sequences, H, chunk / 64]: tiles before are saturated
  float* logits = nullptr;        // z: [sequences, H, chunk, logit_stride]
  // Partial sums of parameters' gradients, one per warpgroup that adds to them.
  float* dtoeplitz = nullptr;   // [sequences, slots, groups, H, span]
  float* dembedding = nullptr;  // [sequences, H, slots, groups, entries]
  // Sums over chunks where there are several: [B, Hkv, Tk, D].
  float* dk = nullptr;
  float* dv = nullptr;

  int slots = 1;        // blocks of threads per head and sequence that share the rows
  int chunk = 0;        // queries per launch
  int key_tiles = 0;    // of the longest sequence
  int first_query = 0;  // of the launch's chunk, in each sequence
  bool first_chunk = true;
  bool last_chunk = true;
};

}  // namespace posenc::cuda
