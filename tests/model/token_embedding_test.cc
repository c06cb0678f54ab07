#include "model/token_embedding.h"

#include <gtest/gtest.h>
#include <torch/cuda.h>

namespace posenc::model {
namespace {

at::Tensor gradient_of(const at::Tensor& table, const at::Tensor& tokens, const at::Tensor& weight,
                       at::Tensor (*embed)(const at::Tensor&, const at::Tensor&)) {
  const at::Tensor leaf = table.detach().clone().requires_grad_(true);
  (embed(leaf, tokens) * weight).sum().backward();
  return leaf.grad();
}

at::Tensor plain(const at::Tensor& table, const at::Tensor& tokens) {
  return at::embedding(table, tokens);
}

struct Case {
  at::Tensor table, tokens, weight;
  Case(std::int64_t batch, std::int64_t length, at::Device device) {
    torch::manual_seed(3);
    table = at::randn({7, 16}).to(device);
    tokens = at::randint(0, 7, {batch, length}).to(device);
    weight = at::randn({batch, length, 16}).to(device);
  }
};

TEST(TokenEmbedding, IsThatOfLibtorchWithItsGradient) {
  const Case c(5, 40, at::kCPU);
  EXPECT_TRUE(embed_tokens(c.table, c.tokens).equal(plain(c.table, c.tokens)));
  EXPECT_TRUE(gradient_of(c.table, c.tokens, c.weight, embed_tokens)
                  .equal(gradient_of(c.table, c.tokens, c.weight, plain)));
  EXPECT_FALSE(at::globalContext().deterministicAlgorithms());
}

TEST(TokenEmbedding, OnGpuHasTheSameBitsEveryTime) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "SKIPPED: no CUDA device";
  const Case c(128, 512, at::kCUDA);
  const at::Tensor first = gradient_of(c.table, c.tokens, c.weight, embed_tokens);
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(gradient_of(c.table, c.tokens, c.weight, embed_tokens).equal(first)) << i;
  }
  const at::Tensor exact =
      gradient_of(c.table.to(at::kDouble), c.tokens, c.weight.to(at::kDouble), plain);
  EXPECT_LT((first.to(at::kDouble) - exact).norm().item<double>(),
            1e-5 * exact.norm().item<double>());
  EXPECT_FALSE(at::globalContext().deterministicAlgorithms());
}

}  // namespace
}  // namespace posenc::model
