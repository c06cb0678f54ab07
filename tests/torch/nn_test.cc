#include "posenc/torch/nn.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "posenc/encodings/sinusoidal.h"
#include "support/catalog_specs.h"
#include "support/message_of.h"

namespace posenc {
namespace {

using testing::message_of;

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
                          .spec = "rope + alibi + t5 + cope(npos_max=4, gate_source=separate)"});
  EXPECT_EQ(names_of(*attention),
            (std::vector<std::string>{"q_proj.weight", "k_proj.weight", "v_proj.weight",
                                      "out_proj.weight", "gate_proj.weight", "pos.t5.weight",
                                      "pos.cope.pos_emb"}));
  EXPECT_EQ(attention->named_buffers().keys(), std::vector<std::string>{"pos.alibi.slopes"});
  const nn::PositionalEmbedding embedding("learned(max_positions=8)", 16);
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

// Each call with a cache gives the last rows of one pass over the tokens so far, for the schedules'
// frequencies at that length: token by token, and a prompt in chunks with tokens after it.
void expect_cached_as_one_pass(const std::string& spec, const std::vector<std::int64_t>& steps) {
  torch::manual_seed(2);
  nn::Attention attention(nn::AttentionConfig{
      .model_dim = 32, .heads = 4, .kv_heads = 2, .spec = spec, .causal = true});
  const at::NoGradGuard decoding;
  const at::Tensor x = torch::randn({2, 400, 32});
  nn::KeyValueCache cache;
  for (const std::int64_t step : steps) {
    const std::int64_t end = cache.length + step;
    const at::Tensor out = attention->forward(x.slice(1, end - step, end), &cache);
    ASSERT_EQ(cache.length, end);
    const at::Tensor whole = attention->forward(x.slice(1, 0, end)).slice(1, end - step);
    ASSERT_TRUE(at::allclose(out, whole, 1e-4, 1e-5))
        << spec << " at " << end << ": " << (out - whole).abs().max().item<double>();
  }
}

TEST(TorchModules, ACacheGivesWhatOnePassGives) {
  for (const char* spec :
       {"none", "rope + alibi", "rope + cope(npos_max=8)", "xpos + fire",
        "cope(npos_max=8, gate_source=separate)", "rope(schedule=learnable) + t5", "rope + xpos"}) {
    expect_cached_as_one_pass(spec, {20, 1, 1, 9, 1});
  }
}

// The trained lengths of the catalogue's schedules, 16 and 24, are crossed both ways.
TEST(TorchModules, ACacheOfEveryRotationGivesWhatOnePassGives) {
  for (const std::string& spec : testing::catalog_specs(Site::kQueryKey, 8)) {
    expect_cached_as_one_pass(spec, std::vector<std::int64_t>(30, 1));
    expect_cached_as_one_pass(spec, {10, 5, 1, 1, 1, 7, 9, 1, 1});
  }
  expect_cached_as_one_pass("xpos", {300, 99, 1});
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
  nn::LinearAttention attention(
      nn::AttentionConfig{.model_dim = 16, .heads = 2, .spec = "rope", .causal = true});
  const at::Tensor x = torch::randn({1, 40, 16});
  at::Tensor changed = x.clone();
  changed.slice(1, 30).add_(1.0);
  const at::Tensor a = attention->forward(x);
  const at::Tensor b = attention->forward(changed);
  EXPECT_TRUE(at::allclose(a.slice(1, 0, 30), b.slice(1, 0, 30), 1e-4, 1e-6));
  EXPECT_FALSE(at::allclose(a.slice(1, 30), b.slice(1, 30)));
}

// Training keeps the sines of the last length: other lengths, types and positions in between must not be given them.
TEST(TorchModules, SinesOfATrainingStepAreThoseOfItsLength) {
  nn::PositionalEmbedding kept("sinusoidal + sinusoidal(theta=100)", 8);
  nn::PositionalEmbedding fresh("sinusoidal + sinusoidal(theta=100)", 8);
  fresh->eval();
  for (const std::int64_t length : {5, 5, 9, 3, 9}) {
    const at::Tensor x = at::randn({2, length, 8});
    EXPECT_TRUE(kept->forward(x).equal(fresh->forward(x))) << length;
    EXPECT_TRUE(kept->forward(x.to(at::kDouble)).equal(fresh->forward(x.to(at::kDouble))));
    const at::Tensor places = at::arange(length, at::kLong) + 2;
    EXPECT_TRUE(kept->forward(x, places).equal(fresh->forward(x, places)));
  }
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

TEST(TorchModules, WhatTheyWouldIgnoreIsRefused) {
  const auto says = [](const std::string& words, const nn::AttentionConfig& config) {
    const std::string softmax = message_of([&] { const nn::Attention made(config); });
    EXPECT_NE(softmax.find(words), std::string::npos) << softmax;
    const std::string linear = message_of([&] { const nn::LinearAttention made(config); });
    EXPECT_NE(linear.find(words), std::string::npos) << linear;
  };
  const nn::AttentionConfig fine{.model_dim = 64, .heads = 8};
  for (const char* spec : {"learned", "sinusoidal", "sinusoidal + rope"}) {
    nn::AttentionConfig config = fine;
    config.spec = spec;
    says("nn.PositionalEmbedding", config);
  }
  nn::AttentionConfig odd = fine;
  odd.model_dim = 65;
  says("model_dim must be a multiple of heads (8) but got 65", odd);
  odd.head_dim = 16;
  EXPECT_EQ(nn::Attention(odd)->forward(torch::zeros({1, 2, 65})).size(2), 65);
  nn::AttentionConfig window = fine;
  window.window_left = -5;
  says("window_left must be -1 (no bound) or >= 0 but got -5", window);
  const auto embedded = message_of([] { const nn::PositionalEmbedding made("rope", 16); });
  EXPECT_NE(embedded.find("nn.Attention"), std::string::npos) << embedded;
}

TEST(TorchModules, LinearAttentionRefusesWhatItWouldIgnore) {
  nn::AttentionConfig config{.model_dim = 16, .heads = 2, .window_left = 3};
  EXPECT_THROW(const nn::LinearAttention made(config), c10::Error);
  config.window_left = -1;
  config.dropout = 0.1;
  EXPECT_THROW(const nn::LinearAttention made(config), c10::Error);
  config.dropout = 0.0;
  config.qk_norm = true;
  const std::string said = message_of([&] { const nn::LinearAttention made(config); });
  EXPECT_NE(said.find("[LinearAttention] does not support qk_norm"), std::string::npos) << said;
}

// One default for functions and modules: not causal, as scaled_dot_product_attention.
TEST(TorchModules, AreNotCausalUnlessTold) {
  EXPECT_EQ(nn::AttentionConfig{}.causal, ops::AttentionOptions{}.causal);
  torch::manual_seed(5);
  nn::Attention attention(nn::AttentionConfig{.model_dim = 16, .heads = 2, .spec = "rope"});
  const at::Tensor x = torch::randn({1, 6, 16});
  at::Tensor changed = x.clone();
  changed[0][5] += 1.0;
  EXPECT_FALSE(at::equal(attention->forward(x)[0][0], attention->forward(changed)[0][0]));
  nn::KeyValueCache cache;
  EXPECT_THROW((void)attention->forward(x, &cache), c10::Error);
}

}  // namespace
}  // namespace posenc
