// Weights that are computed anew are those that the fused kernel used: times the values they give its
// output, in every layer.
#include "train/attention_observer.h"

#include <gtest/gtest.h>

namespace posenc::train {
namespace {

constexpr std::int64_t kTokens = 40;

config::ModelConfig config_of(const std::string& spec) {
  config::ModelConfig config;
  config.encoding = {spec};
  config.layers = 2;
  config.dim = 32;
  config.heads = 4;
  config.kv_heads = 2;
  return config;
}

// Encodings that start from nothing (CoPE's table) must say something here, and queries and keys must
// prefer some tokens to others.
void make_lively(model::TransformerImpl& model) {
  const at::NoGradGuard quiet;
  torch::manual_seed(5);
  for (auto& item : model.named_parameters()) {
    if (model::is_positional(item.key())) item.value().normal_(0.0, 0.4);
    if (item.key().find("q_proj.weight") != std::string::npos) item.value().mul_(6.0);
  }
}

at::Tensor tokens() { return (at::arange(kTokens, at::kLong) * 7919 % 11).unsqueeze(0); }

struct Seen {
  std::vector<ObservedLayer> layers;
  at::Tensor out;
  at::Tensor plain;  // of a model without an observer
};

Seen look(const config::ModelConfig& config, bool causal = true) {
  const at::NoGradGuard quiet;
  const model::ModelContext context{
      .vocabulary = 11, .causal = causal, .train_length = 16, .seed = 3};
  const auto layers = std::make_shared<std::vector<ObservedLayer>>();
  model::Transformer observed(config, context, observing(layers));
  model::Transformer plain(config, context);
  make_lively(*observed);
  make_lively(*plain);
  observed->eval();
  plain->eval();
  const at::Tensor out = observed->forward(tokens());
  return {*layers, out, plain->forward(tokens())};
}

void expect_exact(const ObservedLayer& layer, const std::string& title) {
  at::Tensor reference;
  const runs::AttentionLayer maps = exact_attention(layer, &reference);
  const std::int64_t heads = layer.q.size(1);
  const at::Tensor weights = at::tensor(maps.weights).reshape({1, heads, kTokens, kTokens});
  EXPECT_LT((weights.sum(-1) - 1.0).abs().max().item<double>(), 1e-5) << title;
  const at::Tensor v = layer.v.repeat_interleave(heads / layer.v.size(1), 1);
  EXPECT_LT((at::matmul(weights, v) - layer.fused).abs().max().item<double>(), 1e-5) << title;
  EXPECT_LT((reference - layer.fused).abs().max().item<double>(), 1e-5) << title;
  // Not all alike: a uniform map would pass some of this.
  EXPECT_GT(weights.max().item<double>(), 0.3) << title;
}

TEST(AttentionObserver, WeightsTimesValuesIsTheFusedOutput) {
  for (const char* spec :
       {"none", "rope", "alibi", "t5", "kerple", "xpos", "cope(npos_max=8)",
        "rope + cope(npos_max=8)", "alibi + cope(npos_max=8, gates_see_bias=true)",
        "cope(npos_max=64, gate_source=separate)", "sinusoidal + rope",
        "rope(schedule=dynamic(factor=4, max_position_embeddings=16))"}) {
    const Seen seen = look(config_of(spec));
    EXPECT_TRUE(seen.out.equal(seen.plain)) << spec;
    ASSERT_EQ(seen.layers.size(), 2U) << spec;
    for (const ObservedLayer& layer : seen.layers) expect_exact(layer, spec);
  }
}

TEST(AttentionObserver, MasksAreThoseOfTheModel) {
  config::ModelConfig config = config_of("rope + alibi");
  config.window = 5;
  const Seen windowed = look(config);
  expect_exact(windowed.layers[1], "window");
  const auto weights = exact_attention(windowed.layers[1]).weights;
  EXPECT_EQ(weights[static_cast<std::size_t>(20 * kTokens + 14)], 0.0f);
  EXPECT_GT(weights[static_cast<std::size_t>(20 * kTokens + 15)], 0.0f);
  EXPECT_EQ(weights[static_cast<std::size_t>(20 * kTokens + 21)], 0.0f);

  const Seen both_sides = look(config_of("rope + alibi"), false);
  expect_exact(both_sides.layers[0], "encoder");
  EXPECT_GT(exact_attention(both_sides.layers[0]).weights[static_cast<std::size_t>(kTokens - 1)],
            0.0f);
}

TEST(AttentionObserver, ScaledQueriesAreSeenAsTheyAreUsed) {
  config::ModelConfig config = config_of("rope");
  config.score_scaling = config::ScoreScaling::kLog;
  for (const ObservedLayer& layer : look(config).layers) expect_exact(layer, "log scaling");
}

// p_ij is the sum of the gates from j to i, as far as it goes.
TEST(AttentionObserver, GatesAddUpToThePositions) {
  const auto layers = look(config_of("cope(npos_max=8)")).layers;
  const runs::AttentionLayer maps = exact_attention(layers[1]);
  ASSERT_TRUE(maps.has_cope());
  bool clamped = false;
  for (std::int64_t row = 0; row < 4 * kTokens; ++row) {
    double sum = 0.0;
    for (std::int64_t j = kTokens - 1; j >= 0; --j) {
      const auto cell = static_cast<std::size_t>(row * kTokens + j);
      sum += static_cast<double>(maps.gates[cell]);
      const bool visible = j <= row % kTokens;
      clamped = clamped || sum > 7.0;
      EXPECT_NEAR(maps.positions[cell], visible ? std::min(sum, 7.0) : 0.0, 1e-5)
          << row << " " << j;
    }
  }
  EXPECT_TRUE(clamped);
  EXPECT_FALSE(exact_attention(look(config_of("rope")).layers[0]).has_cope());
}

}  // namespace
}  // namespace posenc::train
