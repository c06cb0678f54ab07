// Site 1: position vectors added to embeddings.
#include <gtest/gtest.h>

#include "support/attention_case.h"

namespace posenc {
namespace {

using testing::compare_gradient;
using testing::inner_product;
using testing::random_normal;

constexpr ref::EmbeddingShape kShape{.batch = 2, .tokens = 3, .model_dim = 5};
const ModelShape kModel{.head_dim = 5, .heads = 1, .model_dim = 5};
const std::vector<std::int64_t> kPositions = {2, 0, 3, 3, 1, 3};

TEST(EmbeddingRef, AddsTheRowsOfEveryEncoding) {
  Rng rng(1);
  const Spec spec = parse_spec("learned(max_positions=4) + sinusoidal + rope(rotary_dim=2)");
  const auto parameters = testing::random_parameters(spec, kModel, rng);
  const auto x = random_normal(30, rng);
  for (const bool given : {true, false}) {
    const auto y =
        ref::add_embeddings(spec, parameters, kShape, x,
                            given ? std::span(kPositions) : std::span<const std::int64_t>());
    for (std::size_t t = 0; t < 6; ++t) {
      const auto n = given ? kPositions[t] : static_cast<std::int64_t>(t % 3);
      std::vector<double> wave(5);
      embedding(std::get<Sinusoidal>(spec.encodings[1]), n, wave);
      for (std::size_t c = 0; c < 5; ++c) {
        const double row = parameters[0][0][static_cast<std::size_t>(n) * 5 + c];
        EXPECT_EQ(y[5 * t + c], x[5 * t + c] + row + wave[c]);
      }
    }
  }
}

TEST(EmbeddingRef, GradientsAgreeWithDifferences) {
  Rng rng(2);
  const Spec spec = parse_spec("sinusoidal + learned(max_positions=4) + alibi");
  auto parameters = testing::random_parameters(spec, kModel, rng);
  auto x = random_normal(30, rng);
  const auto grad_out = random_normal(30, rng);
  const auto loss = [&] {
    return inner_product(grad_out, ref::add_embeddings(spec, parameters, kShape, x, kPositions));
  };
  const auto gradients =
      ref::add_embeddings_backward(spec, parameters, kShape, grad_out, kPositions);
  testing::GradientReport report;
  compare_gradient("x", x, gradients.x, loss, report);
  compare_gradient("weight", parameters[1][0], gradients.parameters[1][0], loss, report);
  compare_gradient("slopes", parameters[2][0], gradients.parameters[2][0], loss, report);
  EXPECT_TRUE(gradients_agree(report));
}

TEST(EmbeddingRef, APositionPastTheTableIsAnError) {
  Rng rng(3);
  const Spec spec = parse_spec("learned(max_positions=3)");
  const auto parameters = testing::random_parameters(spec, kModel, rng);
  const auto x = random_normal(30, rng);
  EXPECT_THROW(ref::add_embeddings(spec, parameters, kShape, x, kPositions), Error);
  EXPECT_THROW(ref::add_embeddings_backward(spec, parameters, kShape, x, kPositions), Error);
  EXPECT_NO_THROW(ref::add_embeddings(spec, parameters, kShape, x));
}

}  // namespace
}  // namespace posenc
