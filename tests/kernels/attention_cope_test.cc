// CoPE inside attention: what its positions count.
#include <gtest/gtest.h>

#include <algorithm>

#include "support/attention_case.h"

namespace posenc {
namespace {

using testing::AttentionCase;
using testing::causal;
using testing::largest_difference;
using testing::random_case;

const ref::AttentionShape kShape{
    .batch = 1, .heads = 2, .kv_heads = 2, .queries = 7, .keys = 7, .head_dim = 4};

// Gate keys along one channel that every query has at 1: the gate logit is then `logit` everywhere.
AttentionCase with_gate_logit(const char* spec, const ref::AttentionOptions& options,
                              double logit) {
  AttentionCase problem = random_case(spec, kShape, options, 5);
  for (std::size_t n = 0; n < problem.q.size(); n += 4) {
    problem.q[n] = 1.0;
    std::vector<double>& gate_k = problem.of_encodings[0];
    gate_k[n] = 2.0 * logit;  // the scale is 1/sqrt(4)
    for (std::size_t c = 1; c < 4; ++c) gate_k[n + c] = 0.0;
  }
  problem.options.keep_cope_positions = true;
  return problem;
}

TEST(AttentionCope, OpenGatesCountTheDistancePlusOne) {
  for (const double npos_max : {5.0, 64.0}) {
    const std::string spec =
        "cope(gate_source=separate, npos_max=" + std::to_string(static_cast<int>(npos_max)) + ")";
    const auto output = with_gate_logit(spec.c_str(), causal(), 1000.0).forward();
    for (std::size_t n = 0; n < 2 * 7 * 7; ++n) {
      const auto i = static_cast<double>(n / 7 % 7);
      const auto j = static_cast<double>(n % 7);
      const double expected = j > i ? 0.0 : std::min(i - j + 1.0, npos_max - 1.0);
      EXPECT_EQ(output.cope_positions[0][n], expected) << n;
    }
  }
}

// Gates are kept as they are, also where the positions that they add up to have reached their end.
TEST(AttentionCope, GatesAreKeptBesideThePositions) {
  const auto output =
      with_gate_logit("cope(gate_source=separate, npos_max=3)", causal(), 0.0).forward();
  for (std::size_t n = 0; n < 2 * 7 * 7; ++n) {
    EXPECT_DOUBLE_EQ(output.cope_gates.at(0)[n], n % 7 > n / 7 % 7 ? 0.0 : 0.5) << n;
  }
  EXPECT_EQ(output.cope_positions.at(0)[42], 2.0);
}

TEST(AttentionCope, WithoutACausalMaskKeysAreCountedFromTheLast) {
  const auto output = with_gate_logit("cope(gate_source=separate)", {}, 1000.0).forward();
  for (std::size_t n = 0; n < 2 * 7 * 7; ++n) {
    EXPECT_EQ(output.cope_positions[0][n], 7.0 - static_cast<double>(n % 7));
  }
}

TEST(AttentionCope, PaddingIsNotCounted) {
  ref::AttentionOptions options = causal();
  options.masking.key_mask = {1, 1, 0, 1, 1, 0, 1};
  const auto output = with_gate_logit("cope(gate_source=separate)", options, 1000.0).forward();
  const std::vector<double> last_row = {5, 4, 0, 3, 2, 0, 1};
  for (std::size_t j = 0; j < 7; ++j) EXPECT_EQ(output.cope_positions[0][42 + j], last_row[j]);
}

TEST(AttentionCope, ClosedGatesAndAZeroTableAddNothing) {
  AttentionCase closed = with_gate_logit("cope(gate_source=separate)", causal(), -1000.0);
  AttentionCase zero = closed;
  zero.parameters[0][0].assign(zero.parameters[0][0].size(), 0.0);
  AttentionCase none = closed;
  none.spec = {};
  none.parameters = {};
  none.of_encodings.clear();
  // Position 0 for every key: the same logit in the whole row, which the softmax does not see.
  EXPECT_LE(largest_difference(closed.forward().out, none.forward().out), 1e-13);
  EXPECT_EQ(zero.forward().out, none.forward().out);
}

TEST(AttentionCope, GatesSeeBiasesOnlyWhenAsked) {
  const char* plain = "cope(npos_max=4, gate_source=separate)";
  const char* beside = "relative(max_distance=2) + cope(npos_max=4, gate_source=separate)";
  const char* seen =
      "relative(max_distance=2) + cope(npos_max=4, gate_source=separate, gates_see_bias=true)";
  const auto positions = [](const char* spec) {
    return with_gate_logit(spec, causal(), 0.3).forward().cope_positions[0];
  };
  EXPECT_EQ(positions(beside), positions(plain));
  EXPECT_GT(largest_difference(positions(seen), positions(plain)), 1e-3);
}

TEST(AttentionCope, RotationReachesGatesThroughTheRawScoreAlone) {
  const auto positions = [](const char* spec) {
    AttentionCase problem = random_case("cope(npos_max=32)", kShape, causal(), 6);
    problem.spec = parse_spec(spec);
    if (problem.spec.encodings.size() > 1)
      problem.parameters.insert(problem.parameters.begin(), Parameters{});
    problem.options.keep_cope_positions = true;
    return problem.forward().cope_positions[0];
  };
  EXPECT_GT(
      largest_difference(positions("rope + cope(npos_max=32)"), positions("cope(npos_max=32)")),
      1e-3);
  EXPECT_EQ(positions("rope + cope(npos_max=32, gate_source=value)"),
            positions("cope(npos_max=32, gate_source=value)"));
}

TEST(AttentionCope, VariantsSayTheSameInOtherWords) {
  const AttentionCase base = random_case("cope(npos_max=4)", kShape, causal(), 7);
  using Inputs = std::vector<std::vector<double>>;
  const auto output = [&](const char* spec, const Inputs& inputs, double table) {
    AttentionCase problem = base;
    problem.spec = parse_spec(spec);
    problem.of_encodings = inputs;
    for (double& x : problem.parameters[0][0]) x *= table;
    return problem.forward().out;
  };
  const char* separate = "cope(npos_max=4, gate_source=separate)";
  // Gate keys that are the keys, or the values; a logit that is halved (sqrt(4)), or its table.
  EXPECT_EQ(output(separate, {base.k}, 1.0), output("cope(npos_max=4)", {}, 1.0));
  EXPECT_EQ(output(separate, {base.v}, 1.0),
            output("cope(npos_max=4, gate_source=value)", {}, 1.0));
  EXPECT_EQ(output("cope(npos_max=4, logit_scale=sqrt_dim)", {}, 1.0),
            output("cope(npos_max=4)", {}, 0.5));
  EXPECT_NE(output(separate, {base.v}, 1.0), output(separate, {base.k}, 1.0));
}

// Each of two CoPEs reads an input of its own, in the order of the spec.
TEST(AttentionCope, TwoSeparateGatesHaveAnInputEach) {
  const char* both =
      "cope(npos_max=4, gate_source=separate) + cope(npos_max=5, gate_source=separate)";
  AttentionCase problem = random_case(both, kShape, causal(), 8);
  const std::vector<SpecInput> inputs = problem.token_inputs();
  ASSERT_EQ(inputs.size(), 2u);
  EXPECT_EQ(names_of(inputs), "cope.gate_k, cope_2.gate_k");
  EXPECT_EQ(inputs[1].info.projection, "gate_proj_2");
  problem.options.keep_cope_positions = true;
  AttentionCase changed = problem;
  changed.of_encodings[1] = problem.of_encodings[0];
  const auto before = problem.forward().cope_positions;
  const auto after = changed.forward().cope_positions;
  EXPECT_EQ(before[0], after[0]);
  EXPECT_NE(before[1], after[1]);
  changed.of_encodings[0] = problem.of_encodings[1];
  EXPECT_NE(before[0], changed.forward().cope_positions[0]);
}

TEST(AttentionCope, TheAlibiVariantWithOpenGatesIsAlibi) {
  AttentionCase cope =
      with_gate_logit("cope(gate_source=separate, variant=alibi)", causal(), 1000.0);
  AttentionCase alibi = cope;
  alibi.spec = parse_spec("alibi");
  alibi.of_encodings.clear();
  for (double& slope : alibi.parameters[0][0]) slope = -slope;
  EXPECT_LE(largest_difference(cope.forward().out, alibi.forward().out), 1e-13);
}

}  // namespace
}  // namespace posenc
