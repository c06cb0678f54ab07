// Terms of a row of scores in a decode step, and its weights. `place` is that of the query; keys first .. end - 1 are those
// that its window shows.
#pragma once

#include "core/aligned.h"
#include "kernels/cpu/attention_simd.h"
#include "kernels/cpu/decode_simd.h"

namespace posenc::decode {

bool sees_any(const cpu::HeadProblem& p, std::int64_t place, std::int64_t first, std::int64_t end);

float fire_bias(const cpu::HeadProblem& p, std::int64_t place, std::int64_t key);
void add_fire(const cpu::HeadProblem& p, std::int64_t place, std::int64_t first, std::int64_t end,
              float* scores);

// CoPE's logit at every position for the plain query q, null where heads share a table; then what gates count up to.
void fill_positions(const cpu::HeadProblem& p, const float* q, AlignedFloats& table);
void add_positions(const cpu::HeadProblem& p, const float* gates, const AlignedFloats& table,
                   std::int64_t first, std::int64_t end, float* scores);

// RelativeQuery: a row of products with u, then one of them for every key.
void add_relative(const cpu::HeadProblem& p, const float* u, std::int64_t place, std::int64_t first,
                  std::int64_t end, AlignedFloats& products, float* scores);

// Shares in place. The row keeps the logarithm of what is left as its maximum, and 1 as its sum.
cpu::SoftmaxRow break_stick(const cpu::HeadProblem& p, std::int64_t place, std::int64_t first,
                            std::int64_t end, float* scores);

void drop(const cpu::HeadProblem& p, std::int64_t query, std::int64_t first, std::int64_t end,
          float* weights);

}  // namespace posenc::decode
