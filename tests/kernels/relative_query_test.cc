// Products of queries with a vector per distance: what they contain, and where they reach.
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

TEST(RelativeQuery, ATableOfZerosIsNone) {
  AttentionCase with = random_case("rope + relative_query(extent=4)", kShape, causal(), 1);
  with.parameters[1][0].assign(with.parameters[1][0].size(), 0.0);
  AttentionCase plain = with;
  plain.spec = parse_spec("rope");
  plain.parameters = {{}};
  EXPECT_EQ(with.forward().out, plain.forward().out);
}

// CoPE with open gates counts i - j + 1 keys: the same table, one entry on.
TEST(RelativeQuery, CopeWithOpenGatesIsClippedShaw) {
  AttentionCase cope = random_case("cope(npos_max=5, gate_source=open)", kShape, causal(), 2);
  AttentionCase shaw = cope;
  shaw.spec = parse_spec("relative_query(extent=4, beyond=clip, scaling=none)");
  shaw.parameters = {{{}}};
  for (std::size_t c = 0; c < 4; ++c) {
    const auto row = cope.parameters[0][0].begin() + static_cast<std::ptrdiff_t>(c * 5);
    shaw.parameters[0][0].insert(shaw.parameters[0][0].end(), row + 1, row + 5);
  }
  EXPECT_LE(largest_difference(shaw.forward().out, cope.forward().out), 1e-13);
  EXPECT_LE(largest_difference(shaw.backward().q, cope.backward().q), 1e-13);
}

// A number per distance, the same for every query: a learned relative bias.
TEST(RelativeQuery, AnInputOfOnesIsARelativeBias) {
  AttentionCase product =
      random_case("relative_query(extent=4, beyond=clip, source=input, rank=1, per_head=true)",
                  kShape, causal(), 3);
  product.of_encodings[0].assign(product.of_encodings[0].size(), 1.0);
  AttentionCase bias = product;
  bias.spec = parse_spec("relative(max_distance=3)");
  bias.of_encodings.clear();
  EXPECT_LE(largest_difference(product.forward().out, bias.forward().out), 1e-14);
  EXPECT_LE(
      largest_difference(product.backward().parameters[0][0], bias.backward().parameters[0][0]),
      1e-13);
}

TEST(RelativeQuery, EntriesOfDistances) {
  RelativeQuery config{.extent = 3};
  EXPECT_EQ(config.entries(), 3);
  EXPECT_EQ(config.entry(2), 2);
  EXPECT_EQ(config.entry(3), -1);
  EXPECT_EQ(config.entry(-1), -1);
  config.beyond = RelativeQuery::Beyond::kClip;
  EXPECT_EQ(config.entry(9), 2);
  EXPECT_EQ(config.entry(-9), 0);
  config.bidirectional = true;
  EXPECT_EQ(config.entries(), 5);
  EXPECT_EQ(config.entry(-2), 0);
  EXPECT_EQ(config.entry(0), 2);
  EXPECT_EQ(config.entry(-9), 0);
}

TEST(RelativeQuery, GradientsMatchDifferences) {
  for (const ref::AttentionOptions& options : testing::causal_settings()) {
    for (const char* spec :
         {"relative_query(extent=4)",
          "rope + relative_query(extent=3, source=input, rank=2) + sink",
          "relative_query(extent=2, per_head=true, beyond=clip) + alibi + cope(npos_max=3)"}) {
      AttentionCase problem = random_case(spec, kShape, options, 4);
      const auto report = testing::compare_all_gradients(problem);
      EXPECT_EQ(report.wrong, 0) << spec << " " << report.first_wrong;
    }
  }
}

// Rows of lanes: tables shorter and longer than a block of queries and a tile of keys, on both sides of the query.
TEST(RelativeQuery, KernelsReadEveryDistance) {
  for (const std::int64_t extent : {1, 5, 63, 64, 65, 130, 500}) {
    for (const bool is_causal : {true, false}) {
      for (const char* beyond : {"zero", "clip"}) {
        const std::string spec = "relative_query(extent=" + std::to_string(extent) +
                                 ", beyond=" + beyond + ", bidirectional=true, init_std=1)";
        cases::AttentionProblem problem(cases::Case{
            .spec = spec, .queries = 150, .keys = 170, .head_dim = 16, .causal = is_causal});
        problem.forward();
        problem.backward();
        const auto found = problem.results(true);
        const auto want = problem.expected(true);
        for (std::size_t r = 0; r < found.size(); ++r) {
          EXPECT_LE(largest_mixed_error(found[r].values, want[r].values), 1e-4)
              << spec << " " << is_causal << " " << found[r].name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace posenc
