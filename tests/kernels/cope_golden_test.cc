// CoPE against golden values: positions, outputs and gradients of an independent float64 program.
#include <gtest/gtest.h>

#include "support/attention_case.h"

namespace posenc {
namespace {

using testing::Json;
using testing::largest_difference;
using testing::largest_mixed_error;
constexpr double kTolerance = 1e-10;

std::vector<double> values(const Json& golden, const char* key) {
  return golden.at(key).get<std::vector<double>>();
}

testing::AttentionCase golden_case(const Json& golden) {
  testing::AttentionCase problem;
  const auto dims = golden.at("shape").get<std::vector<std::int64_t>>();
  problem.shape = {.batch = dims[0],
                   .heads = dims[1],
                   .kv_heads = dims[1],
                   .queries = dims[2],
                   .keys = dims[2],
                   .head_dim = dims[3]};
  Cope cope;
  cope.npos_max = golden.at("npos_max").get<std::int64_t>();
  problem.spec.encodings = {cope};
  problem.parameters = {{values(golden, "pos_emb_DxP")}};
  problem.q = values(golden, "q");
  problem.k = values(golden, "k");
  problem.v = values(golden, "v");
  problem.grad_out = values(golden, "grad_out");
  problem.options.masking.causal = true;
  problem.options.keep_cope_positions = true;
  return problem;
}

Json golden_cases() { return testing::load_golden("cope_reference.json").at("cases"); }

TEST(CopeGolden, PositionsAndOutputs) {
  const Json cases = golden_cases();
  ASSERT_FALSE(cases.empty());
  for (const Json& golden : cases) {
    const ref::AttentionOutput output = golden_case(golden).forward();
    EXPECT_LE(largest_difference(output.out, values(golden, "out")), kTolerance);
    EXPECT_LE(largest_difference(output.cope_positions.at(0), values(golden, "pos")), kTolerance);
  }
}

TEST(CopeGolden, Gradients) {
  for (const Json& golden : golden_cases()) {
    const ref::AttentionGradients gradients = golden_case(golden).backward();
    EXPECT_LE(largest_mixed_error(gradients.q, values(golden, "dq")), kTolerance);
    EXPECT_LE(largest_mixed_error(gradients.k, values(golden, "dk")), kTolerance);
    EXPECT_LE(largest_mixed_error(gradients.v, values(golden, "dv")), kTolerance);
    EXPECT_LE(largest_mixed_error(gradients.parameters[0][0], values(golden, "dpos_emb")),
              kTolerance);
  }
}

}  // namespace
}  // namespace posenc
