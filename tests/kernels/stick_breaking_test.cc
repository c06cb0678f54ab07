// Shares of a stick in place of the softmax: what they add up to, equal scores, and scores far from 0.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "cases/attention_data.h"
#include "posenc/core/error.h"
#include "support/attention_case.h"
#include "support/random_spec.h"

namespace posenc {
namespace {

using testing::AttentionCase;
using testing::causal;
using testing::largest_mixed_error;
using testing::random_case;

const ref::AttentionShape kShape{
    .batch = 2, .heads = 4, .kv_heads = 2, .queries = 9, .keys = 9, .head_dim = 4};

// Of equal scores 0 every key takes half of what is left.
TEST(StickBreaking, EqualScoresHalveTheRest) {
  AttentionCase problem = random_case("stick_breaking", kShape, causal(), 1);
  problem.q.assign(problem.q.size(), 0.0);
  problem.options.keep_weights = true;
  const auto output = problem.forward();
  for (std::size_t row = 0; row < output.weights.size() / 9; ++row) {
    const std::size_t i = row % 9;
    for (std::size_t j = 0; j < 9; ++j) {
      const double expected = j < i ? std::pow(0.5, static_cast<double>(i - j)) : 0.0;
      EXPECT_DOUBLE_EQ(output.weights[row * 9 + j], expected);
    }
    if (i > 0) {
      EXPECT_DOUBLE_EQ(output.lse[row], -static_cast<double>(i) * std::log(2.0));
    }
  }
}

// Keys at and after the query play no part, whether a mask hides them or not.
TEST(StickBreaking, MasksOfLaterKeysChangeNothing) {
  AttentionCase open = random_case("rope + stick_breaking", kShape, {}, 2);
  AttentionCase masked = open;
  masked.options = causal();
  EXPECT_EQ(open.forward().out, masked.forward().out);
  EXPECT_EQ(open.backward().k, masked.backward().k);
}

TEST(StickBreaking, GradientsMatchDifferences) {
  for (const ref::AttentionOptions& options : testing::causal_settings()) {
    for (const char* spec :
         {"stick_breaking", "rope + alibi + fox + stick_breaking",
          "cope(npos_max=3) + softcap(cap=1) + stick_breaking",
          "relative_query(extent=3) + temperature(kind=ssmax) + stick_breaking"}) {
      AttentionCase problem = random_case(spec, kShape, options, 3);
      problem.options.dropout = {.rate = 0.2, .seed = 5};
      const auto report = testing::compare_all_gradients(problem);
      EXPECT_EQ(report.wrong, 0) << spec << " " << report.first_wrong;
    }
  }
}

// -infinity, of rows without a key, as a number that no other row has.
std::vector<double> finite(std::vector<double> values) {
  for (double& x : values) x = x == -HUGE_VAL ? -1e6 : x;
  return values;
}

// Scores near 0, where many keys share a stick, and far from it, where what is left is below the smallest float.
TEST(StickBreaking, KernelsAreExactAtEverySize) {
  for (const double size : {1e-3, 1.0, 20.0, 300.0}) {
    for (const double shift : {-6.0, 0.0, 6.0}) {
      for (const std::int64_t queries : {1, 300}) {
        cases::AttentionProblem problem(
            cases::Case{.spec = "stick_breaking", .queries = queries, .keys = 300, .head_dim = 16});
        std::vector<double> q = problem.data.q.values();
        for (double& x : q) x *= size;
        problem.data.q.assign(q);
        std::vector<double> k = problem.data.k.values();
        for (std::size_t n = 0; n < k.size(); n += 16) k[n] += shift;
        problem.data.k.assign(k);
        SCOPED_TRACE(::testing::Message() << size << " " << shift << " " << queries);
        problem.forward();
        problem.backward();
        const auto found = problem.results(true);
        const auto want = problem.expected(true);
        for (std::size_t r = 0; r < found.size(); ++r) {
          EXPECT_LE(largest_mixed_error(finite(found[r].values), finite(want[r].values)),
                    3e-4 * (1.0 + size))
              << found[r].name;
        }
      }
    }
  }
}

// stick_breaking and up to two of the specs that tests try, drawn at random.
std::string random_stick(Rng& rng) {
  const std::vector<std::string>& all = testing::many_specs();
  Spec spec = parse_spec("stick_breaking");
  for (std::int64_t count = rng.integer(1, 2); count > 0; --count) {
    const auto n = static_cast<std::size_t>(rng.integer(0, std::ssize(all) - 1));
    for (const Encoding& encoding : parse_spec(all[n]).encodings) {
      const bool none = std::holds_alternative<None>(encoding);
      if (!none) spec.encodings.insert(spec.encodings.end() - 1, encoding);
    }
  }
  testing::keep_one_normaliser(spec);
  testing::keep_one_product(spec);
  return to_text(spec);
}

// Whether the specs may stand together: coordinates of a plane do not fit every rotation.
bool fits(const std::string& spec, const ModelShape& shape) {
  try {
    AttentionPlan(parse_spec(spec), shape, shape.heads, {.sequence = 9});
  } catch (const Error&) {
    return false;
  }
  return true;
}

// A row without a key has no stick: its lse is -infinity.
void expect_whole(double weights, double lse, double limit) {
  EXPECT_NEAR(weights + std::exp(lse), std::isinf(lse) ? 0.0 : 1.0, limit) << weights << " " << lse;
}

TEST(StickBreaking, WeightsAndRestSumToOneInTheReference) {
  Rng rng(31);
  int checked = 0;
  for (int n = 0; n < 150; ++n) {
    const std::string spec = random_stick(rng);
    if (!fits(spec, {.head_dim = 4, .heads = 4})) continue;
    SCOPED_TRACE(spec);
    const auto settings = testing::causal_settings();
    AttentionCase problem =
        random_case(spec, kShape, settings[static_cast<std::size_t>(n) % settings.size()], 32);
    problem.options.keep_weights = true;
    const auto output = problem.forward();
    for (std::size_t row = 0; row < output.lse.size(); ++row) {
      const auto first = output.weights.begin() + static_cast<std::ptrdiff_t>(row * 9);
      expect_whole(std::accumulate(first, first + 9, 0.0), output.lse[row], 1e-12);
    }
    ++checked;
  }
  EXPECT_GT(checked, 100);
}

// Of values that are all 1 the output is the sum of the weights.
TEST(StickBreaking, WeightsAndRestSumToOneInTheKernels) {
  Rng rng(33);
  int checked = 0;
  for (int n = 0; n < 60; ++n) {
    cases::Case c{.spec = random_stick(rng), .heads = 4, .keys = 150, .padding = n % 3 == 0};
    c.queries = n % 2 == 0 ? 150 : 3;
    if (n % 5 == 0) c.window_left = 40;
    const bool turned = c.spec.find("values=true") != std::string::npos;
    if (turned || !fits(c.spec, {.head_dim = 16, .heads = 4})) continue;
    SCOPED_TRACE(c.spec);
    cases::AttentionProblem problem(c);
    problem.data.v.fill(1.0);
    problem.forward();
    const std::vector<double> out = problem.data.out.values();
    for (std::size_t row = 0; row < problem.data.row_sums.size(); ++row) {
      expect_whole(out[row * 16], static_cast<double>(problem.data.row_sums[row]), 3e-6);
    }
    ++checked;
  }
  EXPECT_GT(checked, 30);
}

TEST(StickBreaking, HasNoSink) {
  for (const char* spec : {"stick_breaking + sink", "stick_breaking + stick_breaking"}) {
    EXPECT_THROW(validate(parse_spec(spec), {.head_dim = 4, .heads = 2}), Error) << spec;
  }
  EXPECT_NO_THROW(validate(parse_spec("sink + sink"), {.head_dim = 4, .heads = 2}));
}

}  // namespace
}  // namespace posenc
