// Rotations by input angles that grow linearly with the position are plain RoPE: outputs and every gradient.
#include <gtest/gtest.h>

#include <span>

#include "cases/attention_data.h"
#include "support/attention_case.h"
#include "support/sanitizers.h"
#include "support/simd_targets.h"

namespace posenc {
namespace {

using testing::AttentionCase;
using testing::largest_mixed_error;

// Fields that say what is rotated by how much, for heads of 16 channels.
constexpr std::array kFields = {"theta=100", "theta=1000, inverse=true, layout=interleaved",
                                "theta=50, rotary_dim=8, dim_offset=4, values=true"};

std::string rope_with(const char* fields, const char* source) {
  return std::string("rope(") + fields + source + ")";
}

// What the input holds for a token of every batch entry and key head, and what its gradients add up to.
class LinearAngles {
 public:
  LinearAngles(const std::string& rope, const ModelShape& shape, std::int64_t rows,
               std::vector<double> positions)
      : rotary_(make_rotary(std::get<Rope>(parse_spec(rope).encodings[0]), shape, {})),
        rows_(rows),
        positions_(std::move(positions)) {}

  [[nodiscard]] const std::vector<double>& frequencies() const { return rotary_.inv_freq[0]; }
  [[nodiscard]] std::vector<double> input(bool per_pair) const {
    std::vector<double> all;
    for (std::int64_t row = 0; row < rows_; ++row) {
      for (const double position : positions_) {
        if (!per_pair) all.push_back(position);
        for (std::size_t p = 0; per_pair && p < frequencies().size(); ++p) {
          all.push_back(position * frequencies()[p]);
        }
      }
    }
    return all;
  }
  // alpha multiplies a frequency by e^alpha, so its gradient is that of each angle times the angle.
  [[nodiscard]] std::vector<double> alpha_gradient(const std::vector<double>& dangles) const {
    const std::vector<double> angles = input(true);
    std::vector<double> sums(frequencies().size(), 0.0);
    for (std::size_t n = 0; n < angles.size(); ++n) sums[n % sums.size()] += angles[n] * dangles[n];
    return sums;
  }
  [[nodiscard]] std::vector<double> position_gradient(const std::vector<double>& dangles) const {
    std::vector<double> sums(dangles.size() / frequencies().size(), 0.0);
    for (std::size_t n = 0; n < dangles.size(); ++n) {
      sums[n / frequencies().size()] += dangles[n] * frequencies()[n % frequencies().size()];
    }
    return sums;
  }

 private:
  Rotary rotary_;
  std::int64_t rows_;
  std::vector<double> positions_;
};

// The place of every token in its sequence.
std::vector<double> places(std::int64_t tokens, const std::vector<std::int64_t>& cumulative) {
  std::vector<double> all;
  for (std::int64_t t = 0, first = 0, s = 1; t < tokens; ++t) {
    if (!cumulative.empty() && t == cumulative[static_cast<std::size_t>(s)]) {
      first = cumulative[static_cast<std::size_t>(s++)];
    }
    all.push_back(static_cast<double>(t - first));
  }
  return all;
}

AttentionCase with_input(const AttentionCase& plain, const std::string& spec,
                         std::vector<double> input) {
  AttentionCase given = plain;
  given.spec = parse_spec(spec);
  given.parameters = {{}};
  given.of_encodings = {std::move(input)};
  return given;
}

void expect_same(const AttentionCase& found, const AttentionCase& wanted) {
  EXPECT_LE(largest_mixed_error(found.forward().out, wanted.forward().out), 1e-13);
  EXPECT_LE(largest_mixed_error(found.forward().lse, wanted.forward().lse), 1e-13);
  const auto got = found.backward();
  const auto want = wanted.backward();
  EXPECT_LE(largest_mixed_error(got.q, want.q), 1e-12);
  EXPECT_LE(largest_mixed_error(got.k, want.k), 1e-12);
  EXPECT_LE(largest_mixed_error(got.v, want.v), 1e-12);
}

TEST(RopeInput, LinearAnglesAreRopeInTheReference) {
  const ref::AttentionShape shape{
      .batch = 2, .heads = 4, .kv_heads = 2, .queries = 9, .keys = 9, .head_dim = 16};
  for (const ref::AttentionOptions& options : testing::causal_settings()) {
    for (const char* fields : kFields) {
      SCOPED_TRACE(fields);
      const std::string learnable = rope_with(fields, ", schedule=learnable");
      AttentionCase plain = testing::random_case(learnable, shape, options, 21);
      plain.parameters[0][0].assign(plain.parameters[0][0].size(), 0.0);
      const LinearAngles linear(rope_with(fields, ""), {.head_dim = 16, .heads = 4},
                                shape.batch * shape.kv_heads,
                                places(shape.keys, options.masking.cu_queries));
      const AttentionCase angles =
          with_input(plain, rope_with(fields, ", angles=input"), linear.input(true));
      expect_same(angles, plain);
      const std::vector<double> dangles = angles.backward().of_encodings[0];
      EXPECT_LE(
          largest_mixed_error(linear.alpha_gradient(dangles), plain.backward().parameters[0][0]),
          1e-12);
      const AttentionCase position =
          with_input(plain, rope_with(fields, ", angles=input_position"), linear.input(false));
      expect_same(position, plain);
      EXPECT_LE(largest_mixed_error(position.backward().of_encodings[0],
                                    linear.position_gradient(dangles)),
                1e-12);
    }
  }
}

void run(cases::AttentionProblem& problem) {
  problem.forward();
  problem.backward();
}

// The case of `plain` with an input: queries, keys and values are drawn before inputs, the mask after them.
std::unique_ptr<cases::AttentionProblem> run_with_input(const cases::AttentionProblem& plain,
                                                        const std::string& spec,
                                                        const std::vector<double>& input) {
  cases::Case c = plain.data.c;
  c.spec = spec;
  auto problem = std::make_unique<cases::AttentionProblem>(c);
  problem->data.inputs.at(0).assign(input);
  problem->data.key_mask = plain.data.key_mask;
  EXPECT_EQ(problem->path().find("reference"), std::string::npos) << problem->path();
  run(*problem);
  return problem;
}

// A row that sees no key has an lse far below all others, or -infinity.
std::vector<double> of_seen(std::vector<double> values) {
  for (double& x : values) x = x < -1e30 ? 0.0 : x;
  return values;
}

// Values and gradients of float32: angles of the input are rounded, whole positions are not.
void expect_same(const cases::AttentionProblem& found, const cases::AttentionProblem& wanted,
                 double limit) {
  const auto got = found.results(true);
  const auto want = wanted.results(true);
  for (std::size_t r = 0; r < 5; ++r) {  // out, lse, dq, dk, dv
    ASSERT_EQ(got[r].name, want[r].name);
    EXPECT_LE(largest_mixed_error(of_seen(got[r].values), of_seen(want[r].values)), limit)
        << got[r].name;
  }
}

void check_kernels(const cases::Case& setting, const char* fields) {
  cases::Case c = setting;
  c.spec = rope_with(fields, ", schedule=learnable");
  cases::AttentionProblem plain(c);
  plain.data.parameters[0][0].assign(plain.data.parameters[0][0].size(), 0.0);
  run(plain);
  const LinearAngles linear(rope_with(fields, ""), plain.data.shape, c.batch * c.kv_heads,
                            places(c.keys, c.cumulative));
  const auto angles =
      run_with_input(plain, rope_with(fields, ", angles=input"), linear.input(true));
  expect_same(*angles, plain, 5e-5);
  const std::vector<double> dangles = angles->data.dinputs[0].values();
  EXPECT_LE(largest_mixed_error(linear.alpha_gradient(dangles), plain.data.dparameters[0][0]),
            1e-4 * static_cast<double>(c.keys));
  const auto position =
      run_with_input(plain, rope_with(fields, ", angles=input_position"), linear.input(false));
  expect_same(*position, plain, 2e-6);
  EXPECT_LE(
      largest_mixed_error(position->data.dinputs[0].values(), linear.position_gradient(dangles)),
      1e-4);
}

TEST(RopeInput, LinearAnglesAreRopeInTheKernels) {
  const std::vector<cases::Case> settings = {
      {.batch = 2, .heads = 4},
      {.heads = 4, .window_left = 20, .padding = true},
      {.cumulative = {0, 30, 70}},
      {.queries = 3, .keys = 300, .causal = false},
  };
  // Under sanitizers the second setting alone, which has all that a mask may have.
  const std::span<const cases::Case> all = settings;
  testing::for_each_simd_target([&] {
    for (const cases::Case& setting : testing::kSanitized ? all.subspan(1, 1) : all) {
      for (const char* fields : kFields) {
        SCOPED_TRACE(::testing::Message() << fields << " of " << setting.keys << " keys");
        check_kernels(setting, fields);
      }
    }
  });
}

}  // namespace
}  // namespace posenc
