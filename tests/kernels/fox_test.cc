// FoX against encodings that it contains, and where its sums are large. Golden values: next_golden_test.cc.
#include <gtest/gtest.h>

#include <cmath>

#include "cases/attention_data.h"
#include "support/attention_case.h"

namespace posenc {
namespace {

using testing::AttentionCase;
using testing::causal;
using testing::largest_difference;
using testing::largest_mixed_error;
using testing::random_case;

const ref::AttentionShape kShape{
    .batch = 2, .heads = 4, .kv_heads = 2, .queries = 9, .keys = 9, .head_dim = 4};

TEST(Fox, GatesAtOneAddNothing) {
  AttentionCase open = random_case("rope + fox", kShape, causal(), 3);
  open.of_encodings[0].assign(open.of_encodings[0].size(), 0.0);
  AttentionCase plain = open;
  plain.spec = parse_spec("rope");
  plain.parameters = {{}};
  plain.of_encodings.clear();
  EXPECT_EQ(open.forward().out, plain.forward().out);
  EXPECT_EQ(open.forward().lse, plain.forward().lse);
}

// log f = -m_h everywhere fades a key by m_h for each token between: ALiBi.
TEST(Fox, TheSameGateEverywhereIsAlibi) {
  AttentionCase alibi = random_case("alibi", kShape, causal(), 4);
  for (double& slope : alibi.parameters[0][0]) slope = std::abs(slope);
  AttentionCase fox = alibi;
  fox.spec = parse_spec("fox");
  fox.parameters = {{}};
  fox.of_encodings = {{}};
  for (std::int64_t row = 0; row < kShape.batch * kShape.heads; ++row) {
    const double slope = alibi.parameters[0][0][static_cast<std::size_t>(row % kShape.heads)];
    fox.of_encodings[0].insert(fox.of_encodings[0].end(), 9, -slope);
  }
  EXPECT_LE(largest_difference(fox.forward().out, alibi.forward().out), 1e-13);
  EXPECT_LE(largest_difference(fox.forward().lse, alibi.forward().lse), 1e-13);
  EXPECT_LE(largest_mixed_error(fox.backward().k, alibi.backward().k), 1e-13);
}

TEST(Fox, ScaledIsTheTermTimesTheScale) {
  AttentionCase scaled = random_case("fox(scaled=true)", kShape, causal(), 5);
  AttentionCase plain = scaled;
  plain.spec = parse_spec("fox");
  for (double& x : plain.of_encodings[0]) x *= 0.5;  // the scale is 1/sqrt(4)
  EXPECT_LE(largest_difference(scaled.forward().out, plain.forward().out), 1e-13);
}

// Every gradient against differences, with windows, padding, packed sequences and few queries.
TEST(Fox, GradientsMatchDifferences) {
  for (const ref::AttentionOptions& options : testing::causal_settings()) {
    for (const char* spec : {"fox", "rope + alibi + fox + cope(npos_max=3)", "fox + fox"}) {
      AttentionCase problem = random_case(spec, kShape, options, 6);
      const auto report = testing::compare_all_gradients(problem);
      EXPECT_EQ(report.wrong, 0) << spec << " " << report.first_wrong;
      EXPECT_GT(report.checked, 100);
    }
  }
}

// Sums of 1e5 and more: what is near the query is as exact as with small sums.
TEST(Fox, LargeSumsAreExactNearTheQuery) {
  cases::AttentionProblem problem(
      cases::Case{.spec = "fox", .queries = 300, .keys = 300, .head_dim = 16});
  std::vector<double> log_f = problem.data.inputs[0].values();
  for (std::size_t t = 0; t < log_f.size(); ++t) log_f[t] = t % 300 < 200 ? -1000.0 : -0.01;
  problem.data.inputs[0].assign(log_f);
  problem.forward();
  problem.backward();
  const auto found = problem.results(true);
  const auto want = problem.expected(true);
  ASSERT_EQ(found.size(), want.size());
  for (std::size_t r = 0; r < found.size(); ++r) {
    EXPECT_LE(largest_mixed_error(found[r].values, want[r].values), 2e-5) << found[r].name;
  }
}

// Faded by 0.5 a token: what is left out has less than e^-10 of a row's weight, and values there are not read.
TEST(Fox, PruningStaysWithinItsBound) {
  const auto run = [](const char* spec, bool nan) {
    cases::AttentionProblem problem(cases::Case{
        .spec = spec, .heads = 2, .kv_heads = 2, .queries = 600, .keys = 600, .head_dim = 16});
    std::vector<double> log_f = problem.data.inputs[0].values();
    log_f.assign(log_f.size(), -0.5);
    problem.data.inputs[0].assign(log_f);
    std::vector<double> v = problem.data.v.values();
    if (nan) std::fill_n(v.begin(), 16, NAN);  // key 0 of head 0
    problem.data.v.assign(v);
    problem.forward();
    problem.backward();
    return problem.results(true);
  };
  const auto pruned = run("rope + fox(prune=true)", false);
  const auto whole = run("rope + fox", false);
  for (std::size_t r = 0; r < whole.size(); ++r) {
    EXPECT_LE(largest_mixed_error(pruned[r].values, whole[r].values), 2e-4) << whole[r].name;
  }
  const auto row_of_out = [](const auto& results, std::size_t row) {
    return results[0].values[row * 16];
  };
  EXPECT_TRUE(std::isnan(row_of_out(run("rope + fox", true), 599)));
  EXPECT_FALSE(std::isnan(row_of_out(run("rope + fox(prune=true)", true), 599)));
  EXPECT_TRUE(std::isnan(row_of_out(run("rope + fox(prune=true)", true), 20)));
  // Other terms, padding and gates above 1 are not what the bound speaks of.
  EXPECT_TRUE(std::isnan(row_of_out(run("rope + fox(prune=true) + alibi", true), 599)));
}

// The rule is the same from both ends: tokens in the opposite order give outputs in the opposite order.
TEST(Fox, BothSidesAreMirrorImages) {
  const ref::AttentionShape shape{
      .batch = 1, .heads = 1, .kv_heads = 1, .queries = 7, .keys = 7, .head_dim = 4};
  AttentionCase there = random_case("fox(bidirectional=true)", shape, {}, 9);
  AttentionCase back = there;
  for (auto* tensor : {&back.q, &back.k, &back.v}) {
    for (std::size_t t = 0; t < 7; ++t) {
      const auto* from = (tensor == &back.q   ? there.q
                          : tensor == &back.k ? there.k
                                              : there.v)
                             .data();
      std::copy_n(from + (6 - t) * 4, 4, tensor->begin() + static_cast<std::ptrdiff_t>(t * 4));
    }
  }
  std::reverse(back.of_encodings[0].begin(), back.of_encodings[0].end());
  const auto forwards = there.forward().out;
  const auto backwards = back.forward().out;
  for (std::size_t t = 0; t < 7; ++t) {
    for (std::size_t c = 0; c < 4; ++c) {
      EXPECT_NEAR(forwards[t * 4 + c], backwards[(6 - t) * 4 + c], 1e-14);
    }
  }
}

// The first value that is no gate, in the order of tokens, whatever thread finds one.
TEST(Fox, GatesAboveOneAndNaNAreErrorsThatNameTheToken) {
  cases::AttentionProblem problem(
      cases::Case{.spec = "rope + fox", .batch = 2, .queries = 1, .keys = 40000, .padding = true});
  const std::vector<double> gates = problem.data.inputs[0].values();
  const auto refusal = [&](std::size_t row, double value) -> std::string {
    std::vector<double> log_f = gates;
    log_f[row] = log_f.back() = value;
    problem.data.key_mask[row / 80000 * 40000 + row % 40000] = 1;
    problem.data.key_mask.back() = 1;
    problem.data.inputs[0].assign(log_f);
    const Status status = attention(problem.call());
    EXPECT_EQ(status.code(), StatusCode::kOutOfRange);
    return status.message();
  };
  const std::string must = "[attention] fox.log_f must be at most 0 but got ";
  const std::string hint = "; give the logarithm of a gate between 0 and 1, as logsigmoid(x) is";
  EXPECT_EQ(refusal(3, 0.25), must + "0.25 at batch entry 0, head 0, token 3" + hint);
  EXPECT_EQ(refusal(3, NAN), must + "NaN at batch entry 0, head 0, token 3" + hint);
  EXPECT_EQ(refusal(79999, NAN), must + "NaN at batch entry 0, head 1, token 39999" + hint);
  EXPECT_EQ(refusal(80000 + 33000, NAN), must + "NaN at batch entry 1, head 0, token 33000" + hint);
  problem.data.inputs[0].assign(gates);
  EXPECT_TRUE(attention(problem.call()).ok());
}

TEST(Fox, AHiddenTokenMayHoldAnyGate) {
  cases::AttentionProblem problem(
      cases::Case{.spec = "fox", .queries = 40, .keys = 40, .padding = true});
  problem.data.key_mask[7] = 0;
  problem.forward();
  const std::vector<double> want = problem.data.out.values();
  for (const double value : {HUGE_VAL, static_cast<double>(NAN)}) {
    std::vector<double> log_f = problem.data.inputs[0].values();
    log_f[7] = log_f[40 + 7] = value;
    problem.data.inputs[0].assign(log_f);
    problem.forward();
    EXPECT_EQ(problem.data.out.values(), want) << value;
    EXPECT_LE(largest_mixed_error(problem.expected(false)[0].values, want), 1e-5) << value;
  }
}

}  // namespace
}  // namespace posenc
