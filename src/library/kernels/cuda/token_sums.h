// Sums of a term per token (posenc/encodings/token_term.h) on the device, to which attention.h's TokenTable points, and
// their backward. A thread block scans one sequence of one head in float64 and in a fixed order.
#pragma once

#include "kernels/cuda/attention.h"
#include "kernels/cuda/launch.h"
#include "posenc/encodings/token_term.h"

namespace posenc::cuda {

struct TokenScan {
  TokenForm form;
  const float* x = nullptr;  // [B, input heads, Tk], contiguous
  std::int32_t batch = 1;
  std::int32_t heads = 1;  // of the queries
  std::int32_t input_heads = 1;
  std::int32_t queries = 0;
  std::int32_t keys = 0;
  const std::uint8_t* key_mask = nullptr;  // [B, Tk], 0 for padding
  // Packed sequences, as AttentionParams has them; null: one sequence per batch entry.
  const SegmentEntry* segments = nullptr;
  std::int32_t segment_count = 0;
};

// Writes at_query [B, H, Tq] and at_key [B, H, Tk].
Status launch_token_sums(const TokenScan& scan, double* at_query, double* at_key,
                         Stream stream) noexcept;
// From dtoken_queries and dtoken_keys of AttentionBackwardParams to dx, shaped as x.
Status launch_token_sums_backward(const TokenScan& scan, const float* dqueries, const float* dkeys,
                                  float* dx, Stream stream) noexcept;

}  // namespace posenc::cuda
