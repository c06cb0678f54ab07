// Terms that are computed apart from the tiles: products with keys, tables of two axes, paths of steps. And the vectors
// and buckets of RelativeQuery, which some of them share.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "cases/attention_data.h"
#include "cases/compare.h"
#include "posenc/core/error.h"
#include "support/attention_case.h"
#include "support/simd_targets.h"

namespace posenc {
namespace {

using testing::AttentionCase;
using testing::causal;
using testing::largest_difference;
using testing::largest_mixed_error;
using testing::random_case;

const ref::AttentionShape kShape{
    .batch = 2, .heads = 4, .kv_heads = 2, .queries = 9, .keys = 9, .head_dim = 4};
// One head of one channel: scores can be worked out by hand.
const ref::AttentionShape kTiny{
    .batch = 1, .heads = 1, .kv_heads = 1, .queries = 2, .keys = 2, .head_dim = 1};

TEST(KeyProducts, TwoTokensByHand) {
  AttentionCase tiny = random_case("relative_query(extent=2, side=key)", kTiny, causal(), 1);
  tiny.q = {0.0, 0.0};
  tiny.k = {2.0, 3.0};
  tiny.v = {1.0, 0.0};
  tiny.parameters[0][0] = {0.5, -0.25};  // distances 0 and 1; the scale of one channel is 1
  const double far = 2.0 * -0.25;
  const double near = 3.0 * 0.5;
  EXPECT_NEAR(tiny.forward().out[1], 1.0 / (1.0 + std::exp(near - far)), 1e-15);
}

// Exchange queries and keys and read the table backwards: the score of (i, j) is that of (j, i).
TEST(KeyProducts, AreQueryProductsWithTheSidesExchanged) {
  const char* fields = "extent=3, bidirectional=true, scaling=none)";
  AttentionCase keys = random_case(std::string("relative_query(side=key, ") + fields, kTiny, {}, 2);
  AttentionCase queries = keys;
  queries.spec = parse_spec(std::string("relative_query(") + fields);
  std::swap(queries.q, queries.k);
  std::reverse(queries.parameters[0][0].begin(), queries.parameters[0][0].end());
  // Two keys: the first weight tells the difference of the scores.
  const auto difference = [](const AttentionCase& of, double v0, double v1, std::int64_t row) {
    AttentionCase one = of;
    one.v = {v0, v1};
    const double weight = one.forward().out[static_cast<std::size_t>(row)];
    return std::log(weight / (1.0 - weight));
  };
  const double s00_s01 = difference(keys, 1.0, 0.0, 0);
  const double s10_s11 = difference(keys, 1.0, 0.0, 1);
  const double t00_t01 = difference(queries, 1.0, 0.0, 0);  // t_ij = s_ji
  const double t10_t11 = difference(queries, 1.0, 0.0, 1);
  // s00 - s01 - s10 + s11 does not change under the exchange.
  EXPECT_NEAR(s00_s01 - s10_s11, t00_t01 - t10_t11, 1e-12);
}

TEST(RelativeQuery, LogBucketsAreThoseOfDeberta) {
  RelativeQuery config{.extent = 256, .bidirectional = true};
  config.buckets = RelativeQuery::Buckets::kLog;
  EXPECT_EQ(config.bucket(128), 128);
  EXPECT_EQ(config.bucket(129), 129);
  EXPECT_EQ(config.bucket(200), 169);
  EXPECT_EQ(config.bucket(-200), -169);
  EXPECT_EQ(config.bucket(511), 255);
  EXPECT_EQ(config.bucket(-511), -255);
  EXPECT_EQ(config.entry(-511), 0);
  EXPECT_EQ(config.entry(511), 510);
  EXPECT_EQ(config.entry(512), -1);
  for (std::int64_t d = 1; d < 512; ++d) EXPECT_GE(config.bucket(d), config.bucket(d - 1)) << d;
}

// With the same vector for both products, it might as well be a part of the query.
TEST(RelativeQuery, EqualVectorsArePartOfTheQuery) {
  AttentionCase with =
      random_case("rope + relative_query(extent=4, vectors=true)", kShape, causal(), 3);
  with.parameters[1][2] = with.parameters[1][1];
  AttentionCase plain = with;
  plain.spec = parse_spec("rope + relative_query(extent=4)");
  plain.parameters[1].resize(1);
  for (std::size_t n = 0; n < plain.q.size(); ++n) {
    const std::size_t head = n / 36 % 4;
    plain.q[n] += with.parameters[1][1][head * 4 + n % 4];
  }
  EXPECT_LE(largest_difference(with.forward().out, plain.forward().out), 1e-14);
  EXPECT_LE(largest_difference(with.backward().q, plain.backward().q), 1e-13);
}

TEST(Relative2d, PlacesArePatchesInTheOrderOfReading) {
  AttentionCase places = random_case("relative_2d(height=3, width=4)", kShape, {}, 4);
  AttentionCase given = places;
  given.options.positions.axes = 2;
  for (int batch = 0; batch < 2; ++batch) {
    for (std::int64_t n = 0; n < 9; ++n) {
      given.options.positions.query.insert(given.options.positions.query.end(), {n / 4, n % 4});
    }
  }
  given.options.positions.key = given.options.positions.query;
  EXPECT_EQ(places.forward().out, given.forward().out);
  // The whole image elsewhere.
  for (std::size_t n = 0; n < given.options.positions.query.size(); ++n) {
    given.options.positions.query[n] += n % 2 == 0 ? 7 : -20;
  }
  given.options.positions.key = given.options.positions.query;
  EXPECT_EQ(places.forward().out, given.forward().out);
  given.options.positions.query[1] += 1;
  EXPECT_NE(places.forward().out, given.forward().out);
}

// Coordinates that no 32 bits hold, within a block of queries and between its keys.
TEST(Relative2d, CoordinatesMayBeFarApart) {
  for (const char* spec : {"relative_2d(init_std=1)", "relative_2d(separable=true, init_std=1)"}) {
    cases::AttentionProblem problem(
        cases::Case{.spec = spec, .causal = false, .positions = cases::PositionForm::kIds64});
    for (std::vector<std::int64_t>* ids : {&problem.data.q_ids, &problem.data.k_ids}) {
      for (std::size_t t = 30; t < 50; ++t) ids->at(t) += std::int64_t{1} << 50;
    }
    problem.forward();
    problem.backward();
    const cases::Comparison found =
        cases::compare(DType::kFloat32, problem.results(true), problem.expected(true));
    EXPECT_TRUE(found.fine()) << spec << " " << found.mismatch;
  }
}

TEST(Relative2d, SeparableTablesAreASumOfTheFullOne) {
  AttentionCase apart =
      random_case("relative_2d(height=2, width=4, separable=true)", kShape, causal(), 5);
  AttentionCase full = apart;
  full.spec = parse_spec("relative_2d(height=2, width=4)");
  full.parameters[0].resize(1);
  full.parameters[0][0].clear();
  for (std::size_t h = 0; h < 4; ++h) {
    for (std::size_t n = 0; n < 21; ++n) {
      full.parameters[0][0].push_back(apart.parameters[0][0][h * 3 + n / 7] +
                                      apart.parameters[0][1][h * 7 + n % 7]);
    }
  }
  EXPECT_LE(largest_difference(apart.forward().out, full.forward().out), 1e-14);
}

TEST(Relative2d, NegativePositionsAreBeforeTheFirstPatch) {
  const Relative2d config{.height = 3, .width = 4};
  const std::int64_t before = -1;
  EXPECT_EQ(config.point({&before, 1}).y, -1);
  EXPECT_EQ(config.point({&before, 1}).x, 3);
}

TEST(GrapeAp, StepsOfEqualCostAreAlibi) {
  AttentionCase path = random_case("rope + grape_ap(rank=3)", kShape, causal(), 6);
  path.of_encodings[0].assign(path.of_encodings[0].size(), 0.0);
  AttentionCase alibi = path;
  alibi.spec = parse_spec("rope + alibi");
  alibi.of_encodings.clear();
  for (double& slope : alibi.parameters[1][0]) slope *= std::numbers::ln2;
  EXPECT_LE(largest_difference(path.forward().out, alibi.forward().out), 1e-14);
}

TEST(GrapeAp, TwoTokensByHand) {
  AttentionCase tiny = random_case("grape_ap(rank=1, scale=2, separate=true)", kTiny, causal(), 7);
  tiny.q = {0.0, 0.0};
  tiny.v = {1.0, 0.0};
  tiny.of_encodings = {{9.0, 0.5},
                       {9.0, 0.75}};  // p and e: only those of the second token are read
  tiny.parameters[0][0] = {3.0};
  const double score = 3.0 * -std::log1p(std::exp(-2.0 * 0.5 * 0.75));
  EXPECT_NEAR(tiny.forward().out[1], std::exp(score) / (std::exp(score) + 1.0), 1e-15);
}

// 200,000 steps that cost 8e-7 each: a sum of them in float32 would lose a part of every one.
TEST(GrapeAp, SumsOfManyStepsStayExact) {
  const std::int64_t keys = 200000;
  cases::AttentionProblem problem(cases::Case{.spec = "grape_ap(rank=1, scale=1)",
                                              .heads = 1,
                                              .kv_heads = 1,
                                              .queries = 1,
                                              .keys = keys,
                                              .head_dim = 16});
  problem.data.parameters[0][0][0] = 8.0;
  cases::Tensor& p = problem.data.inputs.at(0);
  p.assign(std::vector<double>(static_cast<std::size_t>(keys), std::sqrt(14.0)));
  const auto want = problem.expected(false);
  testing::for_each_simd_target([&] {
    problem.forward();
    const auto found = problem.results(false);
    for (std::size_t r = 0; r < found.size(); ++r) {
      EXPECT_LE(largest_mixed_error(found[r].values, want[r].values), 2e-6) << found[r].name;
    }
  });
}

// A step of 1e20 leaves nothing of the keys before it, whatever it costs.
TEST(GrapeAp, AStepMayCostEverything) {
  cases::AttentionProblem problem(
      cases::Case{.spec = "grape_ap(rank=1, scale=1, separate=true)", .heads = 1, .kv_heads = 1});
  problem.data.parameters[0][0][0] = 1.0;
  problem.data.inputs.at(0).assign(std::vector<double>(70, -1e20));
  std::vector<double> e(70, -1e-20);
  e[40] = 1e18;
  problem.data.inputs.at(1).assign(e);
  const auto want = problem.expected(false);
  testing::for_each_simd_target([&] {
    problem.forward();
    EXPECT_LE(largest_mixed_error(problem.results(false)[0].values, want[0].values), 3e-6);
  });
}

// Token 5 is hidden and tokens from 100 on see key 100; both have a NaN in what the term reads of keys.
TEST(PairTerms, NanShowsInTheRowsThatSeeIt) {
  constexpr std::size_t kHidden = 5, kSeen = 100, kTokens = 200, kDim = 16;
  for (const char* spec :
       {"grape_ap(rank=3, separate=true)", "relative_query(extent=20, beyond=clip, side=key)"}) {
    cases::AttentionProblem problem(cases::Case{.spec = spec,
                                                .heads = 1,
                                                .kv_heads = 1,
                                                .queries = kTokens,
                                                .keys = kTokens,
                                                .padding = true});
    std::vector<std::uint8_t>& mask = problem.data.key_mask;
    std::fill(mask.begin(), mask.end(), std::uint8_t{1});
    mask[kHidden] = 0;
    const bool reads_input = !problem.data.inputs.empty();
    cases::Tensor& read = reads_input ? problem.data.inputs.at(1) : problem.data.k;
    std::vector<double> values = read.values();
    const std::size_t width = values.size() / kTokens;
    values[kHidden * width] = values[kSeen * width] = NAN;
    read.assign(values);
    testing::for_each_simd_target([&] {
      problem.forward();
      problem.backward();
      for (const cases::Result& result : problem.results(true)) {
        const auto at = [&](std::size_t token) { return result.values.at(token * kDim); };
        if (result.name == "out" || result.name == "dq") {
          for (std::size_t r = 0; r < kTokens; ++r) {
            EXPECT_EQ(std::isnan(at(r)), r >= kSeen) << spec << " " << result.name << " " << r;
          }
        }
        if (result.name == "dk" || result.name == "dv") {
          EXPECT_EQ(at(kHidden), 0.0) << result.name;
        }
      }
    });
  }
}

TEST(PairTerms, GradientsMatchDifferences) {
  for (const ref::AttentionOptions& options : testing::causal_settings()) {
    for (const char* spec : {"relative_query(extent=4, side=key, beyond=clip)",
                             "relative_query(extent=3, vectors=true) + sink",
                             "rope + relative_2d(height=2, width=3) + cope(npos_max=3)",
                             "grape_ap(rank=2) + fox", "grape_ap(rank=3, separate=true)"}) {
      AttentionCase problem = random_case(spec, kShape, options, 8);
      const auto report = testing::compare_all_gradients(problem);
      EXPECT_EQ(report.wrong, 0) << spec << " " << report.first_wrong;
    }
  }
}

TEST(RelativeQuery, RefusesFieldsThatContradictEachOther) {
  const ModelShape shape{.head_dim = 8, .heads = 2};
  const auto message = [&](const char* text) -> std::string {
    try {
      validate(parse_spec(text), shape);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message("relative_query(side=key, source=input)").find("side must be query"),
            std::string::npos);
  EXPECT_NE(message("relative_query(side=key, vectors=true)").find("vectors must be false"),
            std::string::npos);
  EXPECT_NE(message("relative_query(source=input, vectors=true)").find("vectors must be false"),
            std::string::npos);
  EXPECT_NE(message("relative_query(buckets=log, max_distance=64)").find("above extent"),
            std::string::npos);
  EXPECT_NE(message("relative_query(buckets=log, extent=7)").find("even"), std::string::npos);
  EXPECT_EQ(message("relative_query(buckets=log, extent=8)"), "");
}

}  // namespace
}  // namespace posenc
