#include "posenc/torch/nn.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "posenc/encodings/sinusoidal.h"

namespace posenc {
namespace {

std::vector<std::string> names_of(const torch::nn::Module& module) {
  std::vector<std::string> names;
  for (const auto& p : module.named_parameters()) names.push_back(p.key());
  return names;
}

TEST(TorchModules, ParametersHaveStableNames) {
  const nn::Attention attention(
      nn::AttentionConfig{.model_dim = 16,
                          .heads = 4,
                          .kv_heads = 2,
                          .spec = "learned(max_positions=8) + rope + alibi + t5 + "
                                  "cope(npos_max=4, gate_source=separate)"});
  EXPECT_EQ(names_of(*attention),
            (std::vector<std::string>{"q_proj.weight", "k_proj.weight", "v_proj.weight",
                                      "out_proj.weight", "gate_proj.weight", "pos.t5.weight",
                                      "pos.cope.pos_emb"}));
  EXPECT_EQ(attention->named_buffers().keys(), std::vector<std::string>{"pos.alibi.slopes"});
  const nn::PositionalEmbedding embedding("learned(max_positions=8) + rope", 16);
  EXPECT_EQ(names_of(*embedding), std::vector<std::string>{"pos.learned.weight"});
}

TEST(TorchModules, EveryParameterGetsAGradient) {
  torch::manual_seed(1);
  nn::Attention attention(
      nn::AttentionConfig{.model_dim = 16,
                          .heads = 4,
                          .kv_heads = 2,
                          .spec = "rope(schedule=learnable) + kerple + fire + cope(npos_max=4)"});
  attention->forward(torch::randn({2, 9, 16})).square().sum().backward();
  for (const auto& p : attention->named_parameters()) {
    ASSERT_TRUE(p.value().grad().defined()) << p.key();
    EXPECT_GT(p.value().grad().abs().max().item<double>(), 0.0) << p.key();
  }
}

TEST(TorchModules, ACacheGivesWhatOnePassGives) {
  for (const char* spec :
       {"none", "rope", "rope + alibi", "xpos(center=0)", "rope + cope(npos_max=8)",
        "cope(npos_max=8, gate_source=separate)", "rope(schedule=learnable) + t5"}) {
    SCOPED_TRACE(spec);
    torch::manual_seed(2);
    nn::Attention attention(
        nn::AttentionConfig{.model_dim = 32, .heads = 4, .kv_heads = 2, .spec = spec});
    const at::Tensor x = torch::randn({2, 30, 32});
    const at::Tensor whole = attention->forward(x);
    nn::KeyValueCache cache;
    std::vector<at::Tensor> parts = {attention->forward(x.slice(1, 0, 20), &cache)};
    for (std::int64_t t = 20; t < 30; ++t) {
      parts.push_back(attention->forward(x.slice(1, t, t + 1), &cache));
    }
    EXPECT_EQ(cache.length, 30);
    EXPECT_TRUE(at::allclose(at::cat(parts, 1), whole, 1e-4, 1e-5));
  }
}

TEST(TorchModules, DropoutChangesFromCallToCallAndIsOffInEvaluation) {
  torch::manual_seed(3);
  nn::Attention attention(
      nn::AttentionConfig{.model_dim = 16, .heads = 2, .spec = "alibi", .dropout = 0.5});
  const at::Tensor x = torch::randn({1, 12, 16});
  EXPECT_FALSE(at::equal(attention->forward(x), attention->forward(x)));
  attention->eval();
  EXPECT_TRUE(at::equal(attention->forward(x), attention->forward(x)));
}

TEST(TorchModules, LinearAttentionIsCausal) {
  torch::manual_seed(4);
  nn::LinearAttention attention(nn::AttentionConfig{.model_dim = 16, .heads = 2, .spec = "rope"});
  const at::Tensor x = torch::randn({1, 40, 16});
  at::Tensor changed = x.clone();
  changed.slice(1, 30).add_(1.0);
  const at::Tensor a = attention->forward(x);
  const at::Tensor b = attention->forward(changed);
  EXPECT_TRUE(at::allclose(a.slice(1, 0, 30), b.slice(1, 0, 30), 1e-4, 1e-6));
  EXPECT_FALSE(at::allclose(a.slice(1, 30), b.slice(1, 30)));
}

TEST(TorchModules, EmbeddingsAddTheEncodingsVectors) {
  nn::PositionalEmbedding embedding("sinusoidal + learned(max_positions=9)", 6);
  const at::Tensor x = torch::zeros({1, 3, 6});
  const at::Tensor places = at::tensor({4, 0, 8}, at::kLong);
  const at::Tensor y = embedding->forward(x, places);
  const at::Tensor table = embedding->named_parameters()["pos.learned.weight"];
  for (std::int64_t t = 0; t < 3; ++t) {
    const std::int64_t n = places[t].item<std::int64_t>();
    std::vector<double> row(6);
    posenc::embedding(Sinusoidal{}, n, row);
    const at::Tensor want = at::tensor(row, at::kDouble).to(at::kFloat) + table[n];
    EXPECT_TRUE(at::allclose(y[0][t], want, 1e-6, 1e-6));
  }
  EXPECT_THROW((void)embedding->forward(x, at::tensor({0, 1, 9}, at::kLong)), c10::Error);
}

}  // namespace
}  // namespace posenc
