// Chains of steps in place of the product of query and key (path, wall): what they are by hand, where they are nothing,
// long rows, sums far from 0, caches, and what is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cases/attention_data.h"
#include "posenc/core/error.h"
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

// The raw scores of a row of three tokens and two channels.
std::vector<double> raw_of(const char* spec, std::vector<std::vector<double>> inputs) {
  AttentionCase problem = random_case(
      spec, {.batch = 1, .heads = 1, .kv_heads = 1, .queries = 3, .keys = 3, .head_dim = 2},
      causal(), 1);
  problem.options.scale = 1.0;
  problem.options.keep_parts = true;
  problem.q = {9, 9, 9, 9, 2, 3};  // of the last token
  problem.k = {1, 0, 0, 1, 1, 1};
  problem.of_encodings = std::move(inputs);
  const auto raw = problem.forward().raw;
  return {raw.begin() + 6, raw.end()};
}

TEST(Path, TwoStepsByHand) {
  // Token 2 takes half of channel 0 away, token 1 exchanges the channels: I - 2 w w^T with w = (1, -1) / sqrt(2).
  const double h = std::sqrt(0.5);
  const auto raw = raw_of("path", {{7, 7, h, -h, 1, 0}, {7, 2, 0.5}});
  EXPECT_DOUBLE_EQ(raw[2], 5.0);    // k_2 = (1, 1), q = (2, 3)
  EXPECT_DOUBLE_EQ(raw[1], 3.0);    // k_1 = (0, 1), q = (1, 3)
  EXPECT_NEAR(raw[0], 3.0, 1e-15);  // k_0 = (1, 0), q = (3, 1)
}

TEST(Wall, TwoStepsByHand) {
  const double half = std::log(0.5);
  const double tenth = std::log(0.1);
  const auto raw = raw_of("wall", {{-7, -7, half, 0, tenth, half}});
  EXPECT_DOUBLE_EQ(raw[2], 5.0);
  EXPECT_DOUBLE_EQ(raw[1], 1.5);    // channel 1: 3 / 2
  EXPECT_NEAR(raw[0], 0.1, 1e-15);  // channel 0: 2 / 10 / 2
}

TEST(Chain, StepsThatDoNothingAreNone) {
  for (const char* spec : {"path", "wall"}) {
    AttentionCase chain = random_case(spec, kShape, causal(), 2);
    chain.of_encodings.back().assign(chain.of_encodings.back().size(), 0.0);  // b, or log f
    AttentionCase plain = chain;
    plain.spec = parse_spec("none");
    plain.parameters.clear();
    plain.of_encodings.clear();
    EXPECT_EQ(chain.forward().out, plain.forward().out) << spec;
    EXPECT_LE(largest_difference(chain.backward().k, plain.backward().k), 1e-14) << spec;
  }
}

// A gate that all channels share is a factor of the product.
TEST(Wall, EqualGatesAreAFactorOfTheScores) {
  AttentionCase problem = random_case("wall", kShape, causal(), 3);
  problem.of_encodings[0].assign(problem.of_encodings[0].size(), std::log(0.9));
  problem.options.keep_parts = true;
  const auto faded = problem.forward().raw;
  problem.of_encodings[0].assign(problem.of_encodings[0].size(), 0.0);
  const auto plain = problem.forward().raw;
  for (std::size_t n = 0; n < plain.size(); ++n) {
    const double distance = static_cast<double>(n / 9 % 9) - static_cast<double>(n % 9);
    EXPECT_NEAR(faded[n], plain[n] * std::pow(0.9, distance), 1e-13);
  }
}

TEST(Chain, GradientsMatchDifferences) {
  for (const ref::AttentionOptions& options : testing::causal_settings()) {
    for (const char* spec : {"path", "wall", "path + fox(scaled=true) + alibi + sink",
                             "path + cope(npos_max=3) + stick_breaking",
                             "wall + temperature(kind=ssmax) + softcap(cap=1)"}) {
      AttentionCase problem = random_case(spec, kShape, options, 4);
      problem.options.dropout = {.rate = 0.2, .seed = 5};
      const auto report = testing::compare_all_gradients(problem);
      EXPECT_EQ(report.wrong, 0) << spec << " " << report.first_wrong;
    }
  }
}

void expect_exact(cases::AttentionProblem& problem, double tolerance, const std::string& what) {
  problem.forward();
  problem.backward();
  const auto found = problem.results(true);
  const auto want = problem.expected(true);
  for (std::size_t r = 0; r < found.size(); ++r) {
    EXPECT_LE(largest_mixed_error(found[r].values, want[r].values), tolerance)
        << what << " " << found[r].name;
  }
}

// Rows of many tiles, with blocks of queries that begin anywhere in a tile.
TEST(Chain, KernelsMatchTheReferenceOnLongRows) {
  for (const char* spec : {"path", "wall"}) {
    for (const std::int64_t queries : {700, 555, 40}) {
      cases::AttentionProblem problem(
          cases::Case{.spec = spec, .queries = queries, .keys = 700, .head_dim = 32});
      expect_exact(problem, 3e-5, spec + std::string(" ") + std::to_string(queries));
    }
    cases::AttentionProblem window(
        cases::Case{.spec = spec, .queries = 600, .keys = 600, .head_dim = 20, .window_left = 200});
    expect_exact(window, 3e-5, spec);
  }
}

// Every step b = 2: reflections, which keep the length of a query however many there are.
TEST(Path, ReflectionsStayExact) {
  cases::AttentionProblem problem(
      cases::Case{.spec = "path", .queries = 1500, .keys = 1500, .head_dim = 16});
  problem.data.inputs[1].fill(2.0);
  expect_exact(problem, 3e-5, "path");
}

// Sums of -1e5 and beyond: most channels fade at once, and some do not at all.
TEST(Wall, GatesAreExactWhereSumsAreLarge) {
  cases::AttentionProblem problem(
      cases::Case{.spec = "wall", .queries = 500, .keys = 500, .head_dim = 16});
  std::vector<double> gates = problem.data.inputs[0].values();
  for (std::size_t n = 0; n < gates.size(); ++n) {
    const std::size_t token = n / 16 % 500;
    gates[n] *= n % 16 < 6 ? 1e-3 : (n % 16 < 12 ? 0.1 : 300.0);
    if (token == 130) gates[n] = -1e5;
    if (token == 131) gates[n] = -std::numeric_limits<double>::infinity();
    if (token == 400 && n % 16 > 3) gates[n] = -90.0;
  }
  problem.data.inputs[0].assign(gates);
  expect_exact(problem, 3e-5, "wall");
}

// One query after the other with a cache of all tokens so far, against all queries in one call.
// What is set to 0 among products of gates must not be a small gradient.
TEST(Wall, GradientsMayBeOfAnyScale) {
  constexpr double kScale = 0x1.0p-70;
  const cases::Case c{.spec = "wall", .heads = 1, .kv_heads = 1, .queries = 300, .keys = 300};
  cases::AttentionProblem whole(c);
  cases::AttentionProblem small(c);
  std::vector<double> gradient = small.data.grad_out.values();
  for (double& x : gradient) x *= kScale;
  small.data.grad_out.assign(gradient);
  for (cases::AttentionProblem* problem : {&whole, &small}) {
    problem->forward();
    problem->backward();
  }
  const auto want = whole.results(true);
  auto found = small.results(true);
  ASSERT_EQ(found.size(), want.size());
  for (std::size_t r = 2; r < want.size(); ++r) {  // past out and lse
    for (double& x : found[r].values) x /= kScale;
    EXPECT_LE(largest_difference(found[r].values, want[r].values), 1e-6) << want[r].name;
  }
}

TEST(Chain, DecodingWithACacheIsTheWhole) {
  for (const char* spec : {"path", "wall", "path + fox + stick_breaking"}) {
    const cases::Case whole{
        .spec = spec, .heads = 4, .kv_heads = 2, .queries = 300, .keys = 300, .head_dim = 16};
    cases::AttentionProblem all(whole);
    all.forward();
    const std::vector<double> expected = all.data.out.values();
    for (const std::int64_t length : {1, 2, 128, 129, 257, 300}) {
      AttentionCall call = all.call();
      cases::Tensor out({1, 4, 1, 16}, DType::kFloat32);
      const auto first = [length](ConstTensorView x) {
        x.shape[2] = length;
        return x;
      };
      call.q.data =
          static_cast<const std::byte*>(call.q.data) + call.q.row_offset(0, 0, length - 1);
      call.q.shape[2] = 1;
      call.k = first(call.k);
      call.v = first(call.v);
      std::vector<ConstTensorView> inputs;
      for (const ConstTensorView& x : call.inputs) inputs.push_back(first(x));
      call.inputs = inputs;
      call.out = out.view();
      call.lse = {};
      ASSERT_TRUE(attention(call).ok());
      for (std::size_t h = 0; h < 4; ++h) {
        for (std::size_t c = 0; c < 16; ++c) {
          const std::size_t at = (h * 300 + static_cast<std::size_t>(length) - 1) * 16 + c;
          EXPECT_NEAR(out.values()[h * 16 + c], expected[at], 1e-5) << spec << " " << length;
        }
      }
    }
  }
}

void expect_refused(AttentionCall call, const char* what) {
  const Status status = attention(call);
  EXPECT_FALSE(status.ok());
  EXPECT_NE(std::string(status.message()).find(what), std::string::npos) << status.message();
}

TEST(Chain, RefusesWhatItCannotMean) {
  for (const char* spec : {"path", "wall"}) {
    cases::AttentionProblem problem(cases::Case{.spec = spec, .queries = 20, .keys = 20});
    AttentionCall call = problem.call();
    call.mask.causal = false;
    expect_refused(call, "set causal=true");
    AttentionCase open = random_case(spec, kShape, causal(), 1);
    open.options.masking.causal = false;
    EXPECT_THROW(static_cast<void>(open.forward()), Error);
  }
  cases::AttentionProblem problem(cases::Case{.spec = "wall", .queries = 20, .keys = 20});
  std::vector<double> gates = problem.data.inputs[0].values();
  gates[37] = 0.25;
  problem.data.inputs[0].assign(gates);
  expect_refused(problem.call(),
                 "wall.log_f must be at most 0 but got 0.25 at batch entry 0, "
                 "head 0, token 2");
  gates[37] = NAN;
  problem.data.inputs[0].assign(gates);
  expect_refused(problem.call(), "wall.log_f must be at most 0 but got NaN");
  for (const double x : problem.data.out.values())
    ASSERT_TRUE(std::isnan(x)) << "nothing is written";
  AttentionCase gate = random_case("wall", kShape, causal(), 1);
  for (const double value : {1e-3, HUGE_VAL, static_cast<double>(NAN)}) {
    gate.of_encodings[0][5] = value;
    EXPECT_THROW(static_cast<void>(gate.forward()), Error) << value;
  }
  for (const char* spec : {"path + rope", "wall + xpos", "path + wall", "wall + wall"}) {
    EXPECT_THROW(validate(parse_spec(spec), {.head_dim = 4, .heads = 2}), Error) << spec;
  }
}

// A hidden token may hold any gate: it makes no step.
TEST(Wall, HiddenTokensMayHoldAnyGate) {
  AttentionCase problem = random_case("wall", kShape, causal(), 6);
  problem.options.masking.key_mask.assign(18, 1);
  problem.options.masking.key_mask[3] = 0;
  const auto expected = problem.forward().out;
  for (std::size_t c = 0; c < 4; ++c) problem.of_encodings[0][3 * 4 + c] = 5.0;
  EXPECT_EQ(problem.forward().out, expected);

  cases::AttentionProblem kernel(
      cases::Case{.spec = "wall", .queries = 30, .keys = 30, .padding = true});
  kernel.forward();
  const std::vector<double> before = kernel.data.out.values();
  std::vector<double> gates = kernel.data.inputs[0].values();
  for (std::size_t n = 0; n < gates.size(); ++n) {
    if (kernel.data.key_mask[n / 16 % 30] == 0) gates[n] = 5.0;
  }
  kernel.data.inputs[0].assign(gates);
  kernel.forward();
  EXPECT_EQ(kernel.data.out.values(), before);
}

TEST(Chain, ExplainNamesIt) {
  for (const char* spec : {"path", "wall"}) {
    const std::string text =
        explain(parse_spec(spec), {.heads = 2, .kv_heads = 2, .queries = 200, .keys = 200});
    EXPECT_NE(text.find("fused, a chain of steps (" + std::string(spec) + ")"), std::string::npos)
        << text;
  }
}

}  // namespace
}  // namespace posenc
