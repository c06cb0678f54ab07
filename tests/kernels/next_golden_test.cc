// Golden values of the encodings of 2024 to 2026: outputs and all gradients, parameters and inputs by their names.
#include <gtest/gtest.h>

#include "support/attention_case.h"

namespace posenc {
namespace {

using testing::AttentionCase;
using testing::Json;
using testing::largest_difference;
using testing::largest_mixed_error;

std::vector<double> values(const Json& tensor) {
  return tensor.at("values").get<std::vector<double>>();
}

AttentionCase golden_case(const Json& one, const std::vector<std::int64_t>& dims) {
  AttentionCase problem;
  problem.spec = parse_spec(one.at("spec").get<std::string>());
  problem.shape = {dims[0], dims[1], dims[1], dims[2], dims[2], dims[3]};
  problem.options.masking.causal = one.at("causal").get<bool>();
  problem.q = values(one.at("q"));
  problem.k = values(one.at("k"));
  problem.v = values(one.at("v"));
  problem.grad_out = values(one.at("grad_out"));
  problem.parameters.resize(problem.spec.encodings.size());
  for (const SpecParameter& p : parameters(problem.spec, {.head_dim = dims[3], .heads = dims[1]})) {
    problem.parameters[p.encoding].push_back(values(one.at("params").at(p.info.name)));
  }
  for (const SpecInput& input : problem.token_inputs()) {
    problem.of_encodings.push_back(values(one.at("inputs").at(input.info.name)));
  }
  return problem;
}

TEST(NextGolden, OutputsAndGradients) {
  const Json golden = testing::load_golden("next_reference.json");
  const auto dims = golden.at("shape").get<std::vector<std::int64_t>>();
  ASSERT_EQ(golden.at("cases").size(), 11U);
  for (const Json& one : golden.at("cases")) {
    const AttentionCase problem = golden_case(one, dims);
    SCOPED_TRACE(to_text(problem.spec));
    EXPECT_LE(largest_difference(problem.forward().out, values(one.at("out"))), 1e-10);
    const ref::AttentionGradients found = problem.backward();
    const auto compare = [&](const std::string& name, const std::vector<double>& got) {
      EXPECT_LE(largest_mixed_error(got, values(one.at("gradients").at(name))), 1e-10) << name;
    };
    compare("q", found.q);
    compare("k", found.k);
    compare("v", found.v);
    for (const SpecParameter& p :
         parameters(problem.spec, {.head_dim = dims[3], .heads = dims[1]})) {
      compare(p.info.name, found.parameters[p.encoding][p.index]);
    }
    for (std::size_t i = 0; i < found.of_encodings.size(); ++i) {
      compare(problem.token_inputs()[i].info.name, found.of_encodings[i]);
    }
  }
}

}  // namespace
}  // namespace posenc
