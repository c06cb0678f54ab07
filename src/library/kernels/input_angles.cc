#include "kernels/input_angles.h"

#include <cmath>

#include "kernels/paged_cache.h"

namespace posenc {

InputAngleRows::InputAngleRows(const AttentionPlan::State& state, std::size_t r,
                               std::span<const ConstTensorView> inputs, std::int64_t batch,
                               std::int64_t kv_head, const BlockTable& table)
    : rope_(*rope_of_input(state, r)),
      rotary_(state.rotations[r]),
      input_(inputs[first_input(state.inputs, state.rotary[r])]),
      table_(table),
      frequencies_(rotary_.inv_freq[rotary_.group_of(kv_head, state.kv_heads)]),
      batch_(batch),
      kv_head_(kv_head),
      values_(static_cast<std::size_t>(input_.channels())),
      row_(values_.size(), 0.0) {}

void InputAngleRows::read(std::int64_t token, bool hidden) {
  if (rope_.running && hidden) return;
  read_key_row(table_, input_, batch_, kv_head_, token, values_.size(), values_.data());
  for (std::size_t c = 0; c < row_.size(); ++c) {
    row_[c] = static_cast<double>(values_[c]) + (rope_.running ? row_[c] : 0.0);
  }
}

void InputAngleRows::write(float* cos, float* sin) const {
  const bool per_pair = rope_.angles == Rope::Angles::kInput;
  const double sign = rotary_.inverse ? -1.0 : 1.0;
  for (std::size_t p = 0; p < frequencies_.size(); ++p) {
    const double angle = sign * (per_pair ? row_[p] : row_[0] * frequencies_[p]);
    cos[p] = static_cast<float>(rotary_.attention_factor * std::cos(angle));
    sin[p] = static_cast<float>(rotary_.attention_factor * std::sin(angle));
  }
}

}  // namespace posenc
