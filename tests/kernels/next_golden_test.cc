// Golden values of the encodings of 2024 to 2026: outputs and all gradients, parameters and inputs by their names.
#include <gtest/gtest.h>

#include "cases/attention_data.h"
#include "cases/compare.h"
#include "support/attention_case.h"
#include "support/simd_targets.h"

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

// The case's tensors and parameters, stored as `dtype`.
cases::AttentionProblem stored_case(const AttentionCase& of, DType dtype) {
  const auto [batch, heads, kv_heads, queries, keys, dim, value_dim] = of.shape;
  cases::AttentionProblem problem(cases::Case{.spec = to_text(of.spec),
                                              .batch = batch,
                                              .heads = heads,
                                              .kv_heads = kv_heads,
                                              .queries = queries,
                                              .keys = keys,
                                              .head_dim = dim,
                                              .value_dim = value_dim,
                                              .dtype = dtype,
                                              .causal = of.options.masking.causal});
  problem.data.q.assign(of.q);
  problem.data.k.assign(of.k);
  problem.data.v.assign(of.v);
  problem.data.grad_out.assign(of.grad_out);
  problem.data.parameters = of.parameters;
  for (std::size_t i = 0; i < of.of_encodings.size(); ++i) {
    problem.data.inputs[i].assign(of.of_encodings[i]);
  }
  return problem;
}

// Output and gradients of the kernels by the names of the golden file, against its values.
void compare_kernels(const cases::AttentionProblem& problem, const Json& one, double limit) {
  const cases::AttentionData& data = problem.data;
  const auto compare = [&](const std::string& name, const std::vector<double>& got,
                           const Json& want) {
    EXPECT_LE(largest_mixed_error(got, values(want)), limit) << name;
  };
  const Json& gradients = one.at("gradients");
  compare("out", data.out.values(), one.at("out"));
  compare("dq", data.dq.values(), gradients.at("q"));
  compare("dk", data.dk.values(), gradients.at("k"));
  compare("dv", data.dv.values(), gradients.at("v"));
  for (const SpecParameter& p : parameters(data.spec, data.shape)) {
    compare(p.info.name, data.dparameters[p.encoding][p.index], gradients.at(p.info.name));
  }
  for (std::size_t i = 0; i < data.token_inputs.size(); ++i) {
    const std::string& name = data.token_inputs[i].info.name;
    compare(name, data.dinputs[i].values(), gradients.at(name));
  }
}

// A value of bfloat16 is off by at most 2^-9 of itself, and a result depends on several of them.
TEST(NextGolden, KernelsInFloat32AndBfloat16) {
  const Json golden = testing::load_golden("next_reference.json");
  const auto dims = golden.at("shape").get<std::vector<std::int64_t>>();
  for (const Json& one : golden.at("cases")) {
    const AttentionCase wanted = golden_case(one, dims);
    for (const DType dtype : {DType::kFloat32, DType::kBfloat16}) {
      SCOPED_TRACE(to_text(wanted.spec) + " " + dtype_name(dtype));
      cases::AttentionProblem problem = stored_case(wanted, dtype);
      EXPECT_EQ(problem.path().rfind("fused", 0), 0U) << problem.path();
      testing::for_each_simd_target([&] {
        problem.forward();
        problem.backward();
        compare_kernels(problem, one, dtype == DType::kFloat32 ? 3e-5 : 0x1.0p-6);
        const cases::Comparison of_stored =
            cases::compare(dtype, problem.results(true), problem.expected(true));
        EXPECT_TRUE(of_stored.fine()) << of_stored.mismatch;
      });
    }
  }
}

}  // namespace
}  // namespace posenc
