// Internal state of a linear attention call after validation of the arguments.
#pragma once

#include <vector>

#include "kernels/attention_plan.h"
#include "kernels/cpu/linear_attention_simd.h"
#include "posenc/kernels/linear_attention.h"

namespace posenc {

struct LinearSetup {
  const LinearAttentionCall* call = nullptr;
  const AttentionPlan::State* state = nullptr;
  std::vector<Segment> segments;
  std::size_t dim = 0;
  std::vector<const RotaryCache*> tables;  // per site-2 encoding
  std::vector<std::unique_ptr<RotaryCache>> own_tables;
  std::int64_t axes = 1;

  [[nodiscard]] bool cosine() const {
    return call->options.form == LinearAttentionOptions::Form::kCosine;
  }
  // Channels of q' and k': the cosine has one more, always 1, for the 1 of 1 + <u, u>.
  [[nodiscard]] std::size_t features() const { return dim + (cosine() ? 1 : 0); }
  [[nodiscard]] std::int64_t heads() const { return state->shape.heads; }
  [[nodiscard]] std::int64_t group() const { return heads() / state->kv_heads; }
  [[nodiscard]] cpu::Sees sees(cpu::Sees in_causal) const {
    return call->mask.causal ? in_causal : cpu::Sees::kNone;
  }
  [[nodiscard]] std::size_t row_of(const Segment& s, std::int64_t head, std::int64_t query) const {
    const std::int64_t matrix = s.batch * heads() + head;
    return static_cast<std::size_t>(matrix * call->q.tokens() + s.first_query + query);
  }
};

// Whether the spec and the options are for linear attention at all.
Status check_linear_options(const AttentionPlan& plan,
                            const LinearAttentionOptions& options) noexcept;
// Values of linear attention are as wide as its keys.
Status check_linear_values(const AttentionPlan& plan, std::int64_t value_dim) noexcept;
// Everything about a call that needs no tables; then the tables, and every position looked up.
Status check_linear(const LinearAttentionCall& call) noexcept;
Status prepare_linear(const LinearAttentionCall& call, LinearSetup& setup);

// Key heads with separate sums: fewer than the query heads only where a group of those
// is rotated by the same frequencies.
std::int64_t sum_heads(const AttentionPlan::State& state);

// Position of a token along an axis: the caller's, or its place.
std::int64_t position_of(const LinearSetup& setup, const Segment& s, Role role, std::int64_t token,
                         std::int64_t axis);

// Tokens whose places are first .. first + count - 1: the same rows of queries and of keys stand at
// the same places. A row where one side has no token is zero there.
struct PlaceChunk {
  std::int64_t first;
  std::size_t count;
};
class PlaceChunks {
 public:
  explicit PlaceChunks(const Segment& s);
  [[nodiscard]] std::int64_t size() const { return size_; }
  [[nodiscard]] PlaceChunk at(std::int64_t index) const;

 private:
  std::int64_t first_;
  std::int64_t end_;
  std::int64_t size_;
};

}  // namespace posenc
