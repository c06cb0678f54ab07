// The angles of rope(angles=input) and of their running sums, token after token of one head.
#pragma once

#include "kernels/attention_plan.h"

namespace posenc {

class InputAngleRows {
 public:
  // Of the r-th site-2 encoding, whose angles are an input.
  InputAngleRows(const AttentionPlan::State& state, std::size_t r,
                 std::span<const ConstTensorView> inputs, std::int64_t batch, std::int64_t kv_head,
                 const BlockTable& table = {});

  // Takes the row of a token of the input. With running=true it is added to the sum of those before, in float64, unless
  // the token is hidden.
  void read(std::int64_t token, bool hidden);
  // Cos and sin of the pairs at the token that was read last.
  void write(float* cos, float* sin) const;

 private:
  const Rope& rope_;
  const Rotary& rotary_;
  const ConstTensorView& input_;
  BlockTable table_;
  const std::vector<double>& frequencies_;
  std::int64_t batch_;
  std::int64_t kv_head_;
  std::vector<float> values_;
  std::vector<double> row_;
};

}  // namespace posenc
