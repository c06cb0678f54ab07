// Gradients of keys and values leave: summed over chunks of queries where there are several.
#pragma once

#include "kernels/cuda/device/backward_space.cuh"
#include "kernels/cuda/device/rows.cuh"

namespace posenc::cuda {

// The 64 keys from `key` on, kParts parts of 64 channels from `first_part` on. Adds what chunks before
// have summed; the last chunk writes elements.
template <class T, int kParts>
__device__ inline void store_key_rows(const AttentionParams& p, const BackwardSpace& space,
                                      const Sequence& s, int kv_head, int key, int first_part,
                                      const ThreadRows& mine, const Tensor4& to, float* sums,
                                      const Accum (&from)[kParts], float scale) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int own = key + key_of_slot(mine.row[h]);
    if (own >= s.keys) continue;
    T* row = static_cast<T*>(to.data) + s.batch * to.batch_stride + kv_head * to.head_stride +
             (s.first_key + own) * to.token_stride;
    float* sum = sums + ((static_cast<std::int64_t>(s.batch) * p.kv_heads + kv_head) * p.keys +
                         s.first_key + own) *
                            p.head_dim;
#pragma unroll
    for (int i = 0; i < kParts * 8; ++i) {
      const int channel = 64 * first_part + 8 * i + 2 * mine.column;
      if (channel >= p.head_dim) continue;
      float2 value = {from[i / 8][i % 8][2 * h] * scale, from[i / 8][i % 8][2 * h + 1] * scale};
      auto* kept = reinterpret_cast<float2*>(sum + channel);
      if (!space.first_chunk) {
        value.x += kept->x;
        value.y += kept->y;
      }
      if (space.last_chunk) {
        store_pair(row + channel, value.x, value.y);
      } else {
        *kept = value;
      }
    }
  }
}

}  // namespace posenc::cuda
