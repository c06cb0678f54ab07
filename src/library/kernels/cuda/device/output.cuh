// The epilogue: writes accumulators to the rows of a result.
#pragma once

#include "kernels/cuda/attention_kernels.h"
#include "kernels/cuda/device/marks.cuh"
#include "kernels/cuda/device/softmax.cuh"
#include "posenc/encodings/sink.h"

namespace posenc::cuda {

// Rows of `to` from `query` on, times `scale` of each of the thread's two.
template <class T, int kParts>
__device__ inline void store_rows(const Tensor4& to, int dim, const Sequence& s, int head,
                                  int query, const ThreadRows& mine, const Accum (&x)[kParts],
                                  const float (&scale)[2]) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int own = query + mine.row[h];
    if (own >= s.queries) continue;
    T* row = static_cast<T*>(to.data) + s.batch * to.batch_stride + head * to.head_stride +
             (s.first_query + own) * to.token_stride;
#pragma unroll
    for (int i = 0; i < kParts * 8; ++i) {
      const int channel = 8 * i + 2 * mine.column;
      if (channel < dim) {
        store_pair(row + channel, x[i / 8][i % 8][2 * h] * scale[h],
                   x[i / 8][i % 8][2 * h + 1] * scale[h]);
      }
    }
  }
}

// The rows' log-sum-exps, where they are kept.
__device__ inline void store_row_numbers(const AttentionParams& p, const Sequence& s, int head,
                                         int query, const ThreadRows& mine, const float (&lse)[2]) {
  if (p.lse == nullptr || mine.column != 0) return;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int own = query + mine.row[h];
    if (own >= s.queries) continue;
    const std::int64_t at =
        (static_cast<std::int64_t>(s.batch) * p.heads + head) * p.queries + s.first_query + own;
    p.lse[at] = lse[h];
  }
}

// Output and log-sum-exps; `factor` as in exponentiate. Rows whose weights add up to 0 have no key, and
// their output is `nothing` times their sums.
template <class T, int kParts>
__device__ inline void store_output(const AttentionParams& p, const Sequence& s, int head,
                                    int query, const ThreadRows& mine, const OnlineSoftmax& softmax,
                                    float factor, const Accum (&out)[kParts],
                                    const float (&nothing)[2]) {
  float sums[2];
  softmax.finish(sums);
  const float keep = p.dropout_threshold != 0 ? p.dropout_scale : 1.0f;
  float inverse[2];
  float lse[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    inverse[h] = sums[h] == 0.0f ? nothing[h] : keep / sums[h];
    lse[h] = sums[h] == 0.0f ? nothing[h] - INFINITY
                             : kLn2 * (softmax.maximum[h] * factor + log2f(sums[h]));
    if (p.sinks == nullptr || sums[h] == 0.0f) continue;
    const SinkRow<float> rest = add_sink(lse[h], p.sinks[head]);
    inverse[h] *= rest.share;
    lse[h] = rest.lse;
  }
  store_rows<T>(p.out, p.head_dim, s, head, query, mine, out, inverse);
  store_row_numbers(p, s, head, query, mine, lse);
}

// By a tuned forward: marks the rows of a warp.
__device__ inline void mark_block(const AttentionParams& p, const Sequence& s, int head, int query,
                                  bool suspect) {
  if (query >= s.queries) return;
  const std::int64_t head_index = static_cast<std::int64_t>(s.index) * p.heads + head;
  mark_rows(static_cast<std::uint32_t*>(p.workspace) + head_index * row_blocks(p) + query / 64,
            suspect);
}

// By a tuned kernel: stores, and marks the rows of the warp if some is not finite or has keys in its window
// and no weight.
template <class T, int kParts>
__device__ inline void store_and_mark(const AttentionParams& p, const Sequence& s, int head,
                                      int query, const ThreadRows& mine,
                                      const OnlineSoftmax& softmax, float factor,
                                      const Accum (&out)[kParts]) {
  const float nothing[2] = {0.0f, 0.0f};
  store_output<T>(p, s, head, query, mine, softmax, factor, out, nothing);
  if (query >= s.queries) return;
  float sums[2];
  softmax.finish(sums);
  bool suspect = !all_finite(out);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int own = query + mine.row[h];
    suspect |= own < s.queries && !(sums[h] > 0.0f) && s.lowest(own) <= s.highest(own);
  }
  mark_block(p, s, head, query, suspect);
}

}  // namespace posenc::cuda
