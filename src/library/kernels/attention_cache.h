// Caches that decoding alone reads: int8 rows with scales.
#pragma once

#include "kernels/attention_plan.h"

namespace posenc {

// Scales are given where their rows are int8, and only there; a call with such rows is a decode step.
Status check_cache(const AttentionCall& call);

// The scale of each of the keys or values of a head from a token on; none where the rows are not int8.
struct RowScales {
  const BlockTable* table = nullptr;
  const ConstTensorView* scales = nullptr;
  std::int64_t batch = 0;
  std::int64_t kv_head = 0;
  std::int64_t first = 0;
  [[nodiscard]] explicit operator bool() const { return scales != nullptr; }
  // numbers[j] *= scale of row j.
  void apply(float* numbers, std::size_t count) const;
};
RowScales scales_of(const AttentionCall& call, const ConstTensorView& rows,
                    const ConstTensorView& scales, std::int64_t batch, std::int64_t kv_head,
                    std::int64_t token);

}  // namespace posenc
