// One query over 1,048,576 keys: sums over the tokens between stay exact where float32 would lose every step. What must
// come out is worked out from the formula of each encoding.
#include <gtest/gtest.h>

#include <cmath>

#include "posenc/kernels/attention.h"

namespace posenc {
namespace {

constexpr std::int64_t kKeys = 1048576;
constexpr std::int64_t kChannels = 4;

// A decode step of one head: rows of keys, values and the input, all 0 until a test sets them.
struct LongRow {
  explicit LongRow(const char* text)
      : spec(parse_spec(text)),
        plan(spec, shape, 1, {.sequence = kKeys}),
        parameters(initial_parameters(spec, shape, 1)) {
    for (const SpecInput& input : token_inputs(spec, shape)) {
      channels.push_back(input.info.channels);
      inputs.emplace_back(static_cast<std::size_t>(kKeys * input.info.channels), 0.0f);
    }
  }

  void run() {
    std::vector<ConstTensorView> views;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      views.emplace_back(ConstTensorView::dense(inputs[i], {1, 1, kKeys, channels[i]}));
    }
    const AttentionCall call{.plan = &plan,
                             .parameters = &parameters,
                             .q = ConstTensorView::dense(q, {1, 1, 1, kChannels}),
                             .k = ConstTensorView::dense(k, {1, 1, kKeys, kChannels}),
                             .v = ConstTensorView::dense(v, {1, 1, kKeys, kChannels}),
                             .inputs = views,
                             .out = TensorView::dense(out, {1, 1, 1, kChannels}),
                             .lse = lse,
                             .mask = {.causal = true}};
    attention(call).throw_if_error();
  }
  // Channel c of the value of the key `distance` tokens before the query.
  float& value(std::int64_t distance, std::int64_t c) {
    return v[static_cast<std::size_t>((kKeys - 1 - distance) * kChannels + c)];
  }

  ModelShape shape{.head_dim = kChannels, .heads = 1};
  Spec spec;
  AttentionPlan plan;
  std::vector<Parameters> parameters;
  std::vector<std::int64_t> channels;
  std::vector<std::vector<float>> inputs;
  std::vector<float> q = std::vector<float>(kChannels);
  std::vector<float> k = std::vector<float>(static_cast<std::size_t>(kKeys * kChannels));
  std::vector<float> v = k;
  std::vector<float> out = q;
  std::vector<float> lse = {0.0f};
};

// 1 + r + .. of `count` weights, each e^-step of the one before.
double geometric(double step, std::int64_t count) {
  return std::expm1(-step * static_cast<double>(count)) / std::expm1(-step);
}

// What a row must be whose keys are decayed by `near` per token up to the middle and by `far` behind it: channel 0 of the
// values counts keys of the nearer quarter, channel 1 of the nearer half, channel 2 all.
void expect_decay(LongRow& row, double near, double far, double limit) {
  constexpr std::int64_t kHalf = kKeys / 2;
  for (std::int64_t d = 0; d < kKeys; ++d) {
    row.value(d, 0) = d < kHalf / 2 ? 1.0f : 0.0f;
    row.value(d, 1) = d < kHalf ? 1.0f : 0.0f;
    row.value(d, 2) = 1.0f;
  }
  row.run();
  const double in_half = geometric(near, kHalf);
  const double sum = in_half + std::exp(-near * static_cast<double>(kHalf)) * geometric(far, kHalf);
  EXPECT_NEAR(static_cast<double>(row.out[0]), geometric(near, kHalf / 2) / sum, limit);
  EXPECT_NEAR(static_cast<double>(row.out[1]), in_half / sum, limit);
  EXPECT_NEAR(static_cast<double>(row.out[2]), 1.0, limit);
  EXPECT_NEAR(static_cast<double>(row.lse[0]), std::log(sum), limit);
}

// Before the middle gates sum to 524,288, where float32 holds nothing below 0.03; those after it are 1e-6.
TEST(LongRows, ForgetGatesOfAMillionKeys) {
  LongRow row("fox");
  for (std::size_t t = 0; t < kKeys; ++t) row.inputs[0][t] = t < kKeys / 2 ? -1.0f : -1e-6f;
  // The key at distance d is decayed by the d gates after it: the first half has 1e-6 each.
  expect_decay(row, static_cast<double>(1e-6f), 1.0, 2e-6);
}

// Steps of 2e-5 to the middle, 10.5 in all, and behind it 8e-7: below half a unit in the last place of the sum.
TEST(LongRows, PathsOfAMillionSteps) {
  LongRow row("grape_ap(rank=1, scale=1, separate=true)");
  row.parameters[0][0] = {1.0};
  row.inputs[0].assign(row.inputs[0].size(), 1.0f);
  constexpr float kNear = 10.8f;
  constexpr float kFar = 14.0f;
  for (std::size_t t = 0; t < kKeys; ++t) row.inputs[1][t] = t < kKeys / 2 ? kFar : kNear;
  const auto cost = [](float product) {
    return std::log1p(std::exp(-static_cast<double>(product)));
  };
  // Weights add up to 49,000 in float32. Each of the 8,192 tiles rounds that by at most 0.002: 3e-4 of it.
  expect_decay(row, cost(kNear), cost(kFar), 3e-4);
}

// Angles run to 104,858 radians, where float32 holds nothing below 0.008. The score is a cos(angle between the two).
TEST(LongRows, RunningAnglesOfAMillionTokens) {
  LongRow row("rope(angles=input, running=true, rotary_dim=2)");
  constexpr float kStep = 0.1f;
  constexpr double kSize = 3.0;
  row.inputs[0].assign(row.inputs[0].size(), kStep);
  row.q[0] = static_cast<float>(kSize * std::sqrt(static_cast<double>(kChannels)));
  double sum = 0.0;
  std::array<double, 2> wanted{};
  for (std::int64_t d = 0; d < kKeys; ++d) {
    const double angle = static_cast<double>(kStep) * static_cast<double>(d);
    row.k[static_cast<std::size_t>((kKeys - 1 - d) * kChannels)] = 1.0f;
    row.value(d, 0) = static_cast<float>(std::cos(angle));
    row.value(d, 1) = static_cast<float>(std::sin(angle));
    const double weight = std::exp(kSize * std::cos(angle));
    sum += weight;
    wanted[0] += weight * std::cos(angle);
    wanted[1] += weight * std::sin(angle);
  }
  row.run();
  EXPECT_NEAR(static_cast<double>(row.out[0]), wanted[0] / sum, 3e-6);
  EXPECT_NEAR(static_cast<double>(row.out[1]), wanted[1] / sum, 3e-6);
  EXPECT_NEAR(static_cast<double>(row.lse[0]), std::log(sum), 3e-6);
}

}  // namespace
}  // namespace posenc
