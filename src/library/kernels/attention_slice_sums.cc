// Sums over tokens, of which each slice has a part.
#include <algorithm>

#include "kernels/attention_plan.h"
#include "posenc/kernels/attention_slices.h"

namespace posenc {
namespace {

// What the sums of a call are made of. Without a scale the default is that of attention().
struct TokenSlice {
  explicit TokenSlice(const AttentionCall& call)
      : state(call.plan->state()),
        input(call.inputs[token_input(*call.plan)]),
        heads(state.shape.heads),
        tokens(static_cast<std::size_t>(input.tokens())),
        form(*token_form(state.spec.encodings[*state.token], scale_of(call))) {}

  // As prepare_attention() finds it: in float32, with the factors of rotations.
  static double scale_of(const AttentionCall& call) {
    auto scale = static_cast<float>(call.scale.value_or(default_scale(call.k.channels())));
    for (const Rotary& rotary : call.plan->state().rotations) {
      scale *= static_cast<float>(rotary.softmax_factor);
    }
    return static_cast<double>(scale);
  }
  [[nodiscard]] std::int64_t sharing() const { return heads / input.heads(); }
  [[nodiscard]] std::vector<double> values(std::int64_t batch, std::int64_t head) const {
    std::vector<double> x;
    for (std::size_t t = 0; t < tokens; ++t) {
      float value = 0.0f;
      read_row(input, batch, head / sharing(), static_cast<std::int64_t>(t), 1, &value);
      x.push_back(static_cast<double>(value));
    }
    return x;
  }

  const AttentionPlan::State& state;
  const ConstTensorView& input;
  std::int64_t heads;
  std::size_t tokens;
  TokenForm form;
};

std::span<const std::uint8_t> mask_of(const AttentionCall& call, std::int64_t batch,
                                      std::size_t tokens) {
  if (call.mask.key_mask == nullptr) return {};
  return {call.mask.key_mask + static_cast<std::size_t>(batch) * tokens, tokens};
}

}  // namespace

std::size_t token_input(const AttentionPlan& plan) {
  return first_input(plan.terms().inputs, *plan.terms().token);
}

SliceSums slice_sums(const AttentionCall& call, std::span<const double> before) {
  const TokenSlice slice(call);
  SliceSums all;
  for (std::int64_t b = 0; b < slice.input.batch(); ++b) {
    for (std::int64_t h = 0; h < slice.heads; ++h) {
      const TokenSums sums =
          token_sums(slice.form, slice.values(b, h), mask_of(call, b, slice.tokens));
      const double base =
          slice.form.running ? before[static_cast<std::size_t>(b * slice.heads + h)] : 0.0;
      for (std::size_t t = 0; t < slice.tokens; ++t) {
        all.at_query.push_back(sums.at_query[t] + base);
        all.at_key.push_back(sums.at_key[t] + base);
      }
    }
  }
  return all;
}

std::vector<double> slice_totals(const AttentionCall& call) {
  const TokenSlice slice(call);
  const auto rows = static_cast<std::size_t>(slice.input.batch() * slice.heads);
  const std::vector<double> zeros(rows, 0.0);
  const SliceSums sums = slice_sums(call, zeros);
  std::vector<double> totals;
  for (std::size_t row = 0; row < rows; ++row) {
    totals.push_back(slice.tokens == 0 ? 0.0 : sums.at_query[(row + 1) * slice.tokens - 1]);
  }
  return totals;
}

void slice_sums_backward(const AttentionCall& call, std::span<const double> dsums,
                         std::span<const double> after, const TensorView& dinput) {
  const TokenSlice slice(call);
  for (std::int64_t b = 0; b < slice.input.batch(); ++b) {
    std::vector<double> gradient(slice.tokens);
    for (std::int64_t h = 0; h < slice.heads; ++h) {
      const auto row = static_cast<std::size_t>(b * slice.heads + h);
      const auto first = dsums.begin() + static_cast<std::ptrdiff_t>(row * slice.tokens);
      std::vector<double> part(first, first + static_cast<std::ptrdiff_t>(slice.tokens));
      if (slice.form.running && !part.empty()) part.back() += after[row];
      if (h % slice.sharing() == 0) std::fill(gradient.begin(), gradient.end(), 0.0);
      token_sums_backward(slice.form, part, mask_of(call, b, slice.tokens), gradient);
      if ((h + 1) % slice.sharing() != 0) continue;
      for (std::size_t t = 0; t < slice.tokens; ++t) {
        const auto value = static_cast<float>(gradient[t]);
        write_row(dinput, b, h / slice.sharing(), static_cast<std::int64_t>(t), &value);
      }
    }
  }
}

}  // namespace posenc
