// RoPE as an operation on tensors.
#include <gtest/gtest.h>

#include <cmath>

#include "support/attention_case.h"

namespace posenc {
namespace {

using testing::compare_gradient;
using testing::GradientReport;
using testing::gradients_agree;
using testing::inner_product;
using testing::largest_difference;
using testing::random_normal;

constexpr ref::RopeShape kShape{.batch = 2, .heads = 4, .tokens = 5, .head_dim = 8};
const ModelShape kModel{.head_dim = 8, .heads = 4, .model_dim = 0};
constexpr Lengths kLengths{.sequence = 16, .context = 0};
const std::vector<std::int64_t> kPositions = {0, 1, 2, 3, 4, 9, 2, 11, 0, 7};

// Every way to rotate that a tensor operation has to know.
std::vector<Rotary> rotaries() {
  std::vector<Rotary> all;
  for (const char* text : {"rope", "rope(layout=interleaved)", "rope(rotary_dim=4, dim_offset=2)",
                           "rope(inverse=true)", "rope(theta=[10, 1000])",
                           "rope(schedule=yarn(factor=4, original_max_position_embeddings=8))"}) {
    const Spec spec = parse_spec(text);
    all.push_back(make_rotary(std::get<Rope>(spec.encodings[0]), kModel, kLengths));
  }
  all.push_back(make_rotary(Xpos{.scale_base = 16.0}, kModel, kLengths));
  return all;
}

std::int64_t size() { return kShape.batch * kShape.heads * kShape.tokens * kShape.head_dim; }

TEST(RopeRef, TurnsEveryVectorByItsRow) {
  Rng rng(1);
  const auto x = random_normal(size(), rng);
  for (const Rotary& rotary : rotaries()) {
    for (const Role role : {Role::kQuery, Role::kKey}) {
      const auto y = ref::rope(rotary, role, kShape, x, kPositions);
      auto expected = x;
      for (std::size_t n = 0; n < expected.size(); n += 8) {
        const std::size_t b = n / 160;
        const auto h = static_cast<std::int64_t>(n / 40 % 4);
        std::vector<double> cos(static_cast<std::size_t>(rotary.pairs()));
        std::vector<double> sin(cos.size());
        rotary_row(rotary, role, rotary.group_of(h, 4),
                   std::span(kPositions).subspan(b * 5 + n / 8 % 5, 1), cos, sin);
        rotate(rotary, cos, sin, std::span(expected).subspan(n, 8));
      }
      EXPECT_EQ(y, expected);
    }
  }
}

TEST(RopeRef, GradientsAgreeWithDifferences) {
  Rng rng(2);
  for (Rotary rotary : rotaries()) {
    for (const Role role : {Role::kQuery, Role::kKey}) {
      auto x = random_normal(size(), rng);
      const auto grad_out = random_normal(size(), rng);
      const auto loss = [&] {
        return inner_product(grad_out, ref::rope(rotary, role, kShape, x, kPositions));
      };
      const auto gradients = ref::rope_backward(rotary, role, kShape, x, kPositions, grad_out);
      GradientReport report;
      compare_gradient("x", x, gradients.x, loss, report);
      const auto pairs = static_cast<std::size_t>(rotary.pairs());
      for (std::size_t g = 0; g < rotary.inv_freq.size(); ++g) {
        const auto first = gradients.inv_freq.begin() + static_cast<std::ptrdiff_t>(g * pairs);
        compare_gradient("inv_freq", rotary.inv_freq[g],
                         {first, first + static_cast<std::ptrdiff_t>(pairs)}, loss, report);
      }
      EXPECT_TRUE(gradients_agree(report));
    }
  }
}

TEST(RopeRef, AlphaGathersTheGroups) {
  Rng rng(3);
  const Spec spec = parse_spec("rope(schedule=learnable, theta=[10, 1000])");
  const auto& config = std::get<Rope>(spec.encodings[0]);
  std::vector<double> alpha = random_normal(4, rng, 0.3);
  const auto x = random_normal(size(), rng);
  const auto grad_out = random_normal(size(), rng);
  const auto made = [&] { return make_rotary(config, kModel, kLengths, alpha); };
  const auto gradients = ref::rope_backward(made(), Role::kQuery, kShape, x, kPositions, grad_out);
  GradientReport report;
  compare_gradient(
      "alpha", alpha, ref::alpha_gradient(made(), gradients.inv_freq),
      [&] {
        return inner_product(grad_out, ref::rope(made(), Role::kQuery, kShape, x, kPositions));
      },
      report);
  EXPECT_TRUE(gradients_agree(report));
}

TEST(RopeRef, TheGradientOfAPureRotationIsTheInverse) {
  Rng rng(4);
  const auto x = random_normal(size(), rng);
  Rotary rotary = make_rotary(Rope{}, kModel, kLengths);
  const auto y = ref::rope(rotary, Role::kQuery, kShape, x, kPositions);
  const auto back = ref::rope_backward(rotary, Role::kQuery, kShape, x, kPositions, y);
  EXPECT_LE(largest_difference(back.x, x), 1e-14);
  rotary.inverse = true;
  EXPECT_LE(largest_difference(ref::rope(rotary, Role::kQuery, kShape, y, kPositions), x), 1e-14);
}

TEST(RopeRef, SeveralAxesReadTheirCoordinates) {
  Rng rng(5);
  const Spec spec = parse_spec("rope(axes=axial(axes=2))");
  const Rotary rotary = make_rotary(std::get<Rope>(spec.encodings[0]), kModel, kLengths);
  const auto x = random_normal(size(), rng);
  std::vector<std::int64_t> doubled;
  for (const std::int64_t n : kPositions) doubled.insert(doubled.end(), {n, n});
  const auto one = ref::rope(rotary, Role::kQuery, kShape, x, kPositions);
  EXPECT_EQ(ref::rope(rotary, Role::kQuery, kShape, x, doubled), one);
  doubled[3] += 1;
  EXPECT_NE(ref::rope(rotary, Role::kQuery, kShape, x, doubled), one);
}

// Site 2 is nothing but this operation on queries and keys before attention.
TEST(RopeRef, AttentionRotatesAsTheOperationDoes) {
  ref::AttentionOptions options;
  options.masking.causal = true;
  const ref::AttentionShape shape{
      .batch = 2, .heads = 4, .kv_heads = 2, .queries = 5, .keys = 5, .head_dim = 8};
  for (const char* text : {"rope(theta=[10, 1000])", "xpos(scale_base=16)"}) {
    auto problem = testing::random_case(text, shape, options, 6);
    const auto expected = problem.forward();
    const Lengths lengths{.sequence = 5, .context = 0};
    const auto* rope = std::get_if<Rope>(&problem.spec.encodings[0]);
    const Rotary rotary =
        rope != nullptr ? make_rotary(*rope, kModel, lengths)
                        : make_rotary(std::get<Xpos>(problem.spec.encodings[0]), kModel, lengths);
    const std::vector<std::int64_t> starts = {0, 0};
    const auto positions = ref::offset_positions(starts, 5);
    problem.q = ref::rope(rotary, Role::kQuery, kShape, problem.q, positions);
    ref::RopeShape keys = kShape;
    keys.heads = 2;
    problem.k = ref::rope(rotary, Role::kKey, keys, problem.k, positions);
    problem.spec = {};
    problem.parameters = {};
    EXPECT_EQ(problem.forward().out, expected.out) << text;
  }
}

TEST(RopeRef, AttentionAppliesTransformsInTheOrderOfTheSpec) {
  const ref::AttentionShape shape{
      .batch = 2, .heads = 4, .kv_heads = 4, .queries = 5, .keys = 5, .head_dim = 8};
  auto problem = testing::random_case("rope + rope(layout=interleaved)", shape, {}, 7);
  const auto expected = problem.forward();
  const std::vector<std::int64_t> starts = {0, 0};
  const auto positions = ref::offset_positions(starts, 5);
  for (const Encoding& encoding : problem.spec.encodings) {
    const Rotary rotary = make_rotary(std::get<Rope>(encoding), kModel, kLengths);
    problem.q = ref::rope(rotary, Role::kQuery, kShape, problem.q, positions);
    problem.k = ref::rope(rotary, Role::kKey, kShape, problem.k, positions);
  }
  problem.spec = {};
  problem.parameters = {};
  EXPECT_EQ(problem.forward().out, expected.out);
}

TEST(RopeRef, SchedulesReachTheScaleAndTheLength) {
  const ref::AttentionShape shape{
      .batch = 1, .heads = 4, .kv_heads = 4, .queries = 5, .keys = 9, .head_dim = 8};
  const char* text =
      "rope(schedule=yarn(factor=4, original_max_position_embeddings=8, mscale=0.7, "
      "mscale_all_dim=0.5, softmax_mscale=true))";
  auto yarn = testing::random_case(text, shape, {}, 8);
  const Rotary rotary = make_rotary(std::get<Rope>(yarn.spec.encodings[0]), kModel, {9, 0});
  ASSERT_GT(rotary.softmax_factor, 1.01);
  const auto expected = yarn.forward();
  yarn.options.scale = 1.0 / std::sqrt(8.0);
  EXPECT_EQ(yarn.forward().out, expected.out);  // the default, said aloud; the factor comes on top
  auto plain = yarn;
  plain.spec = parse_spec(
      "rope(schedule=yarn(factor=4, original_max_position_embeddings=8, mscale=0.7, "
      "mscale_all_dim=0.5))");
  plain.options.scale = rotary.softmax_factor / std::sqrt(8.0);
  EXPECT_LE(largest_difference(plain.forward().out, expected.out), 1e-14);

  // The length that a schedule sees is the last position plus one, unless it is given.
  auto dynamic = testing::random_case("rope(schedule=dynamic(factor=2, max_position_embeddings=4))",
                                      shape, {}, 9);
  const auto implied = dynamic.forward();
  dynamic.options.lengths.sequence = 9;
  EXPECT_EQ(dynamic.forward().out, implied.out);
  dynamic.options.lengths.sequence = 12;
  EXPECT_GT(largest_difference(dynamic.forward().out, implied.out), 1e-4);
}

TEST(RopeRef, PositionsFromOffsetsAndPacking) {
  const std::vector<std::int64_t> offsets = {3, -1};
  EXPECT_EQ(ref::offset_positions(offsets, 3), (std::vector<std::int64_t>{3, 4, 5, -1, 0, 1}));
  const std::vector<std::int64_t> cumulative = {0, 2, 2, 5};
  EXPECT_EQ(ref::packed_positions(cumulative), (std::vector<std::int64_t>{0, 1, 0, 1, 2}));
}

}  // namespace
}  // namespace posenc
