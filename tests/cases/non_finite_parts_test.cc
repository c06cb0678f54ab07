// What else can be NaN or overflow: parameters, the scale, scores past float32, infinite values.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "cases/attention_data.h"
#include "kernels/ref/mask.h"

namespace posenc::cases {
namespace {

const std::vector<Case>& small_cases() {
  static const std::vector<Case> kCases = [] {
    std::vector<Case> all;
    for (const char* spec :
         {"none", "rope(schedule=learnable)", "alibi(trainable=true)", "t5",
          "t5(bidirectional=true)", "kerple", "kerple(kernel=power)",
          "relative(max_distance=20, init_std=1)", "fire(init_threshold=20)",
          "fire(init_threshold=500)", "cope(npos_max=8)", "cope(npos_max=8, gate_source=separate)",
          "cope(npos_max=8, gate_source=open)", "cope(npos_max=8, variant=alibi)",
          "rope + t5 + kerple + cope(npos_max=16)", "cope(npos_max=8) + cope(npos_max=4)"}) {
      all.push_back({.spec = spec, .queries = 70, .keys = 70});
      all.push_back({.spec = spec, .queries = 33, .keys = 150, .causal = false});
      all.push_back({.op = Operation::kDecode, .spec = spec, .queries = 2, .keys = 300});
    }
    return all;
  }();
  return kCases;
}

// Rows of [.., width] with a NaN.
std::vector<bool> nan_rows(const std::vector<double>& values, std::size_t width) {
  std::vector<bool> rows(values.size() / width, false);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i])) rows[i / width] = true;
  }
  return rows;
}

bool has_nan(const std::vector<double>& values) {
  return std::any_of(values.begin(), values.end(), [](double x) { return std::isnan(x); });
}

// A parameter that is NaN shows in the rows that read it, the same in the reference and the kernel, and
// its own gradient is NaN.
TEST(NonFinite, NaNParametersShowInTheRowsThatReadThem) {
  Rng rng(3);
  for (const Case& c : small_cases()) {
    const AttentionData shape_of(c);
    for (std::size_t e = 0; e < shape_of.parameters.size(); ++e) {
      for (std::size_t p = 0; p < shape_of.parameters[e].size(); ++p) {
        AttentionProblem problem(c);
        std::vector<double>& values = problem.data.parameters[e][p];
        const auto entry =
            static_cast<std::size_t>(rng.integer(0, static_cast<std::int64_t>(values.size()) - 1));
        values[entry] = NAN;
        SCOPED_TRACE(name_of(c) + ": " + parameter_label(problem.data.spec, e, p) + "[" +
                     std::to_string(entry) + "]");
        problem.forward();
        problem.backward();
        const auto kernel = problem.results(true);
        const auto reference = problem.expected(true);
        const auto width = static_cast<std::size_t>(c.head_dim);
        EXPECT_EQ(nan_rows(kernel[0].values, width), nan_rows(reference[0].values, width));
        EXPECT_EQ(nan_rows(kernel[2].values, width), nan_rows(reference[2].values, width)) << "dq";
        const bool shows = has_nan(reference[0].values);
        const auto is_gradient = [&](const Result& r) {
          return r.name == "d" + parameter_label(problem.data.spec, e, p);
        };
        for (const auto* results : {&kernel, &reference}) {
          const auto found = std::find_if(results->begin(), results->end(), is_gradient);
          EXPECT_EQ(std::isnan(found->values[entry]), shows) << found->values[entry];
        }
      }
    }
  }
}

// Rows that see a key are NaN; the others are 0.
void expect_seeing_rows_are_nan(const AttentionProblem& problem) {
  const Case& c = problem.data.c;
  const ref::Mask mask("test", problem.data.ref_shape(), problem.data.ref_masking());
  const std::vector<double> out = problem.data.out.values();
  for (std::size_t n = 0; n < out.size(); ++n) {
    const auto row = static_cast<std::int64_t>(n) / c.head_dim;
    const auto visible = mask.row(row / c.queries / c.heads, row % c.queries);
    if (std::find(visible.begin(), visible.end(), true) != visible.end()) {
      ASSERT_TRUE(std::isnan(out[n])) << "row " << row << " is " << out[n];
    } else {
      ASSERT_EQ(out[n], 0.0) << "row " << row;
    }
  }
}

std::vector<Case> blind_cases() {
  std::vector<Case> all = small_cases();
  for (const char* spec : {"none", "rope + alibi", "cope(npos_max=8)"}) {
    all.push_back({.spec = spec, .queries = 90, .keys = 40});  // the first queries see nothing
    all.push_back({.op = Operation::kDecode, .spec = spec, .queries = 7, .keys = 4});
  }
  return all;
}

TEST(NonFinite, AScaleThatIsNaNShowsInEveryRowThatSeesAKey) {
  for (const Case& c : blind_cases()) {
    SCOPED_TRACE(name_of(c));
    AttentionProblem problem(c);
    AttentionCall call = problem.call();
    call.scale = NAN;
    ASSERT_TRUE(attention(call).ok());
    expect_seeing_rows_are_nan(problem);
    auto options = problem.ref_options();
    options.scale = NAN;
    const ExactAttention exact = problem.data.exact();
    const auto reference = ref::attention(problem.data.spec, exact.parameters,
                                          problem.data.ref_shape(), exact.inputs(), options);
    problem.data.out.assign(reference.out);
    expect_seeing_rows_are_nan(problem);
  }
}

// Finite queries and keys whose products are not: all scores of a row are infinite or NaN.
TEST(NonFinite, ScoresPastFloat32AreNotZeros) {
  for (const Case& c : blind_cases()) {
    for (const DType dtype : {DType::kFloat32, DType::kBfloat16}) {
      Case stored = c;
      stored.dtype = dtype;
      SCOPED_TRACE(name_of(stored));
      AttentionProblem problem(stored);
      if (problem.path().rfind("reference", 0) == 0) continue;  // float64: nothing overflows
      for (Tensor* x : {&problem.data.q, &problem.data.k}) {
        std::vector<double> values = x->values();
        for (double& value : values) value = std::copysign(3e19, value);
        x->assign(values);
      }
      problem.forward();
      expect_seeing_rows_are_nan(problem);
    }
  }
}

// One score of -infinity among finite ones has weight 0; a row of nothing else is NaN.
TEST(NonFinite, MinusInfinityIsAWeightOfZeroAmongOthers) {
  for (const std::int64_t queries : {2, 70}) {
    const Case c{.spec = "relative(max_distance=20, init_std=1)", .queries = queries, .keys = 70};
    AttentionProblem problem(c);
    std::vector<double>& table = problem.data.parameters[0][0];
    for (std::size_t i = 1; i < table.size(); i += 3) table[i] = -INFINITY;
    problem.forward();
    for (const double x : problem.data.out.values()) ASSERT_TRUE(std::isfinite(x));
    std::fill(table.begin(), table.end(), -INFINITY);
    problem.forward();
    expect_seeing_rows_are_nan(problem);
    const auto reference = problem.expected(false);
    for (const double x : reference[0].values) ASSERT_TRUE(std::isnan(x));
  }
}

// Memory that was never written may hold anything: at hidden tokens not even numbers whose products
// overflow change a bit, forward or backward.
TEST(NonFinite, HiddenTokensOfAnyValueChangeNothing) {
  for (Case c : small_cases()) {
    c.padding = true;
    SCOPED_TRACE(name_of(c));
    std::vector<std::vector<Result>> runs;
    for (const double hidden : std::initializer_list<double>{0.0, 3e38, -INFINITY, NAN}) {
      AttentionProblem problem(c);
      AttentionData& data = problem.data;
      std::vector<Tensor*> tensors = {&data.k, &data.v};
      for (Tensor& input : data.inputs) tensors.push_back(&input);
      for (Tensor* x : tensors) {
        std::vector<double> values = x->values();
        for (std::size_t i = 0; i < values.size(); ++i) {
          const std::size_t token = i / static_cast<std::size_t>(x->view().channels());
          if (data.key_mask[token % static_cast<std::size_t>(c.keys)] == 0) values[i] = hidden;
        }
        x->assign(values);
      }
      problem.forward();
      problem.backward();
      runs.push_back(problem.results(true));
    }
    for (std::size_t run = 1; run < runs.size(); ++run) {
      for (std::size_t r = 0; r < runs[run].size(); ++r) {
        const auto& expected = runs[0][r].values;
        for (std::size_t i = 0; i < expected.size(); ++i) {
          if (runs[run][r].values[i] == expected[i]) continue;
          // Blocks with a NaN in them sum in another order.
          ASSERT_NEAR(runs[run][r].values[i], expected[i],
                      1e-4 * std::max(1.0, std::abs(expected[i])))
              << runs[run][r].name << " entry " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace posenc::cases
