#include "model/transformer.h"

#include <gtest/gtest.h>
#include <torch/cuda.h>

#include <set>

#include "posenc/core/rng.h"
#include "posenc/torch/ops.h"
#include "support/autocast.h"

namespace posenc::model {
namespace {

using config::ModelConfig;

ModelConfig small(const std::vector<std::string>& encoding) {
  ModelConfig config;
  config.encoding = encoding;
  config.layers = 4;
  config.dim = 32;
  config.heads = 2;
  return config;
}

ModelContext context(bool causal = true) {
  return {.vocabulary = 11, .causal = causal, .train_length = 16, .seed = 3};
}

at::Tensor tokens(std::int64_t rows, std::int64_t length) {
  return (at::arange(rows * length, at::kLong) * 7919 % 11).reshape({rows, length});
}

std::set<std::string> names(const Transformer& model) {
  std::set<std::string> all;
  for (const auto& item : model->named_parameters()) all.insert(item.key());
  return all;
}

const std::vector<std::string> kSpecs = {"none",
                                         "learned(max_positions=64)",
                                         "sinusoidal",
                                         "rope",
                                         "alibi",
                                         "t5",
                                         "kerple",
                                         "fire",
                                         "xpos",
                                         "cope(npos_max=8)",
                                         "rope + cope(npos_max=8)",
                                         "sinusoidal + rope + alibi"};

TEST(Transformer, ParameterNamesAreStable) {
  const Transformer model(small({"learned(max_positions=64) + cope(npos_max=8)"}), context());
  const auto all = names(model);
  for (const char* name : {"embed.weight", "input.pos.learned.weight", "blocks.0.norm1.weight",
                           "blocks.3.attention.q_proj.weight", "blocks.3.attention.out_proj.bias",
                           "blocks.2.attention.pos.cope.pos_emb", "blocks.1.mlp.up.weight",
                           "blocks.1.mlp.down.bias", "norm.weight", "head.weight"}) {
    EXPECT_TRUE(all.count(name) == 1) << name;
  }
}

TEST(Transformer, BiasesAreWhereTheFieldsSay) {
  ModelConfig config = small({"rope"});
  config.bias = false;
  config.attention_bias = config::AttentionBias::kQkv;
  auto all = names(Transformer(config, context()));
  EXPECT_EQ(all.count("blocks.0.attention.k_proj.bias"), 1U);
  EXPECT_EQ(all.count("blocks.0.attention.out_proj.bias"), 0U);
  EXPECT_EQ(all.count("blocks.0.mlp.up.bias"), 0U);
  config.attention_bias = config::AttentionBias::kNone;
  config.mlp_bias = config::MlpBias::kAll;
  all = names(Transformer(config, context()));
  EXPECT_EQ(all.count("blocks.0.attention.q_proj.bias"), 0U);
  EXPECT_EQ(all.count("blocks.0.mlp.down.bias"), 1U);
}

// x + attention(norm1(x)) + mlp(norm2(x)): without the feed-forward part it is pre-norm's, and without attention.
TEST(Transformer, ParallelPartsReadTheSameInput) {
  const at::NoGradGuard quiet;
  for (const char* silenced : {"out_proj", "down"}) {
    std::vector<at::Tensor> found;
    for (const bool parallel : {false, true}) {
      ModelConfig config = small({"rope"});
      config.parallel = parallel;
      Transformer model(config, context());
      for (auto& item : model->named_parameters()) {
        if (item.key().find(silenced) != std::string::npos) item.value().zero_();
      }
      found.push_back(model->forward(tokens(2, 9)));
    }
    EXPECT_TRUE(at::allclose(found[0], found[1], 1e-5, 1e-5)) << silenced;
  }
}

TEST(Transformer, PartsAddUpToTheTotal) {
  const Transformer model(small({"cope(npos_max=8)"}), context());
  auto counts = count_parameters(*model);
  const std::int64_t total = counts["total"];
  counts.erase("total");
  std::int64_t sum = 0;
  for (const auto& [part, count] : counts) sum += count;
  EXPECT_EQ(sum, total);
  EXPECT_EQ(counts["positions"], 4 * 16 * 8);
  EXPECT_EQ(counts["embedding"], 11 * 32);
  EXPECT_EQ(counts["head"], 11 * 32);
}

// A later token never changes an earlier output.
TEST(Transformer, IsCausalWithEveryEncoding) {
  for (const std::string& spec : kSpecs) {
    Transformer model(small({spec}), context());
    model->eval();
    const at::NoGradGuard quiet;
    const at::Tensor before = tokens(2, 12);
    at::Tensor after = before.clone();
    after.index_put_({at::indexing::Slice(), 7}, (before.select(1, 7) + 1) % 11);
    const at::Tensor a = model->forward(before);
    const at::Tensor b = model->forward(after);
    EXPECT_TRUE(a.narrow(1, 0, 7).equal(b.narrow(1, 0, 7))) << spec;
    EXPECT_FALSE(a.narrow(1, 7, 5).allclose(b.narrow(1, 7, 5), 1e-4, 1e-4)) << spec;
  }
}

TEST(Transformer, TheEncoderSeesBothSides) {
  Transformer model(small({"rope"}), context(false));
  model->eval();
  const at::NoGradGuard quiet;
  const at::Tensor before = tokens(1, 12);
  at::Tensor after = before.clone();
  after[0][11] = (after[0][11].item<std::int64_t>() + 1) % 11;
  EXPECT_FALSE(model->forward(before)[0][0].allclose(model->forward(after)[0][0], 1e-5, 1e-6));
}

// Encodings are compared from the same start: what two models share is the same, bit for bit.
TEST(Transformer, EncodingsDoNotChangeTheOtherWeights) {
  const Transformer plain(small({"none"}), context());
  const Transformer other(small({"cope(npos_max=8)"}), context());
  const auto weights = other->named_parameters();
  for (const auto& item : plain->named_parameters()) {
    EXPECT_TRUE(item.value().equal(weights[item.key()])) << item.key();
  }
  ModelContext reseeded = context();
  reseeded.seed = 4;
  const Transformer third(small({"none"}), reseeded);
  EXPECT_FALSE(
      third->named_parameters()["head.weight"].equal(plain->named_parameters()["head.weight"]));
}

TEST(Transformer, AListOfEncodingsIsRepeatedOverTheLayers) {
  const Transformer model(small({"t5", "none"}), context());
  const auto all = names(model);
  EXPECT_EQ(all.count("blocks.0.attention.pos.t5.weight"), 1U);
  EXPECT_EQ(all.count("blocks.1.attention.pos.t5.weight"), 0U);
  EXPECT_EQ(all.count("blocks.2.attention.pos.t5.weight"), 1U);
}

TEST(Transformer, CopeCanShareOneTableAmongLayers) {
  Transformer model(small({"cope(npos_max=8, share_layers=true)"}), context());
  EXPECT_EQ(count_parameters(*model)["positions"], 16 * 8);
  model->forward(tokens(2, 12)).sum().backward();
  EXPECT_GT(model->named_parameters()["blocks.0.attention.pos.cope.pos_emb"]
                .grad()
                .abs()
                .sum()
                .item<double>(),
            0.0);
}

TEST(Transformer, EveryFormRunsForwardAndBackward) {
  std::vector<ModelConfig> forms(9, small({"rope"}));
  forms[0].norm = config::Norm::kPost;
  forms[1].mlp = config::Mlp::kSwiglu;
  forms[2].tied = true;
  forms[3].attention = config::AttentionKind::kLinear;
  forms[4].kv_heads = 1;
  forms[5].bias = false;
  forms[6].norm_kind = config::NormKind::kRms;
  forms[7].qk_norm = true;
  forms[8].mlp = config::Mlp::kRelu;
  for (const ModelConfig& config : forms) {
    Transformer model(config, context());
    model->forward(tokens(2, 12)).square().mean().backward();
    for (const auto& item : model->named_parameters()) {
      ASSERT_TRUE(item.value().grad().defined()) << item.key();
      EXPECT_TRUE(item.value().grad().isfinite().all().item<bool>()) << item.key();
    }
  }
  EXPECT_EQ(names(Transformer(forms[2], context())).count("head.weight"), 0U);
}

TEST(Transformer, RmsNormHasNoMeanAndNoBias) {
  const at::Tensor x = at::tensor({3.0, 4.0, 0.0, 0.0}, at::kFloat);
  ModelConfig config;
  config.dim = 4;
  config.norm_kind = config::NormKind::kRms;
  const Normalize norm(config);
  EXPECT_TRUE(norm->forward(x).allclose(x / 2.5, 1e-5, 1e-5));
  EXPECT_EQ(norm->parameters().size(), 1U);
}

// A post-norm is the residual of the next block: rounding it to the type of products would lose digits at every layer.
TEST(Transformer, OnGpuAPostNormStaysFloat32UnderAutocast) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "SKIPPED: no CUDA device";
  for (const config::Norm norm : {config::Norm::kPre, config::Norm::kPost}) {
    ModelConfig config = small({"rope"});
    config.norm = norm;
    Transformer model(config, context());
    model->to(at::kCUDA);
    const testing::Autocast scope;
    const at::Tensor hidden = model->hidden(tokens(2, 12).to(at::kCUDA));
    EXPECT_EQ(hidden.scalar_type(), norm == config::Norm::kPre ? at::kBFloat16 : at::kFloat);
  }
}

// Token by token through the caches, and in two pieces: what one pass gives.
TEST(Transformer, DecodingGivesWhatOnePassGives) {
  const at::NoGradGuard quiet;
  for (const std::string& spec : kSpecs) {
    for (const config::Norm norm : {config::Norm::kPre, config::Norm::kPost}) {
      ModelConfig config = small({spec});
      config.norm = norm;
      config.qk_norm = true;
      Transformer model(config, context());
      model->eval();
      const at::Tensor all = tokens(2, 12);
      std::vector<nn::KeyValueCache> caches;
      std::vector<at::Tensor> parts = {model->decode(all.narrow(1, 0, 7), caches)};
      for (std::int64_t t = 7; t < 12; ++t) {
        parts.push_back(model->decode(all.narrow(1, t, 1), caches));
      }
      EXPECT_TRUE(at::cat(parts, 1).allclose(model->hidden(all), 1e-4, 1e-4)) << spec;
    }
  }
  ModelConfig scaled = small({"rope"});
  scaled.score_scaling = config::ScoreScaling::kLog;
  EXPECT_NE(Transformer(scaled, context())->why_not_decoded(), "");
}

TEST(Transformer, LearnedPositionsStartOnTheScaleOfTheTokens) {
  const auto deviation = [](const std::string& spec) {
    const Transformer model(small({spec}), context());
    return model->named_parameters()["input.pos.learned.weight"].std().item<double>();
  };
  EXPECT_NEAR(deviation("learned(max_positions=512)"), 1.0 / std::sqrt(32.0), 0.01);
  EXPECT_NEAR(deviation("learned(max_positions=512, init_std=0.5)"), 0.5, 0.03);
  EXPECT_NEAR(deviation("learned(max_positions=512, init_std=0.02)"), 0.02, 0.002) << "as written";
  EXPECT_NEAR(deviation("learned(max_positions=512) + relative(init_std=1)"), 1.0 / std::sqrt(32.0),
              0.01);
  ModelConfig tied = small({"none"});
  tied.tied = true;
  ModelContext many = context();
  many.vocabulary = 2000;
  const Transformer model(tied, many);
  EXPECT_NEAR(model->named_parameters()["embed.weight"].std().item<double>(), 1.0 / std::sqrt(32.0),
              0.01);
}

// What follows a query would all have one bias otherwise.
TEST(Transformer, EncodersTakeTheBidirectionalFormOfBiases) {
  for (const std::string spec : {"alibi", "t5", "relative(max_distance=4)"}) {
    const Transformer encoder(small({spec}), context(false));
    const Transformer decoder(small({spec}), context());
    const auto has = [](const Transformer& model) {
      return model->blocks().front()->attention->config().spec.find("bidirectional=true") !=
             std::string::npos;
    };
    EXPECT_TRUE(has(encoder)) << spec;
    EXPECT_FALSE(has(decoder)) << spec;
  }
}

TEST(Transformer, PadsChangeNothingForAnEncoder) {
  const at::NoGradGuard quiet;
  ModelContext padded = context(false);
  padded.pad = 10;
  Transformer model(small({"rope"}), padded);
  model->eval();
  const at::Tensor row = tokens(1, 9).remainder(10);
  const at::Tensor longer = at::cat({row, at::full({1, 3}, 10, at::kLong)}, 1);
  EXPECT_TRUE(model->hidden(longer).narrow(1, 0, 9).allclose(model->hidden(row), 1e-4, 1e-4));
}

// Masks of dropout: no two layers or steps share one.
TEST(Transformer, LayersAndStepsDrawUnrelatedDropout) {
  std::set<std::uint64_t> seeds;
  for (std::uint64_t layer = 0; layer < 8; ++layer) {
    for (std::uint64_t step = 0; step < 100; ++step) {
      seeds.insert(derived_seed(derived_seed(3, layer), step));
    }
  }
  EXPECT_EQ(seeds.size(), 800U);
  const Transformer model(small({"rope"}), context());
  std::set<std::uint64_t> own;
  for (const Block& block : model->blocks()) own.insert(block->attention->config().seed);
  EXPECT_EQ(own.size(), 4U);
}

TEST(Transformer, PositionsShiftOnlyWhatIsAbsolute) {
  const at::NoGradGuard quiet;
  const at::Tensor shifted = at::arange(5, 17, at::kLong);
  Transformer relative(small({"rope"}), context());
  relative->eval();
  EXPECT_TRUE(relative->forward(tokens(1, 12))
                  .allclose(relative->forward(tokens(1, 12), shifted), 1e-4, 1e-4));
  Transformer absolute(small({"sinusoidal"}), context());
  absolute->eval();
  EXPECT_FALSE(absolute->forward(tokens(1, 12))
                   .allclose(absolute->forward(tokens(1, 12), shifted), 1e-3, 1e-3));
}

// Sines of size one would drown embeddings of size 1 / sqrt(dim), so tokens grow by sqrt(dim) there.
TEST(Transformer, SinusoidalPositionsAloneScaleTokens) {
  const at::NoGradGuard quiet;
  for (const std::string spec : {"sinusoidal", "learned(max_positions=64)"}) {
    Transformer model(small({spec}), context());
    model->eval();
    for (auto& item : model->named_parameters()) {  // blocks that add nothing
      if (item.key().find("blocks.") == 0) item.value().zero_();
    }
    const at::Tensor x = tokens(1, 6);
    const at::Tensor embedded = at::embedding(model->named_parameters()["embed.weight"], x);
    const bool sines = spec == "sinusoidal";
    const at::Tensor places =
        sines ? ops::sinusoidal_vectors(at::arange(6, at::kLong), 32, spec).to(at::kFloat)
              : model->named_parameters()["input.pos.learned.weight"].narrow(0, 0, 6);
    const at::Tensor want =
        at::layer_norm(embedded * (sines ? std::sqrt(32.0) : 1.0) + places, {32});
    EXPECT_TRUE(model->hidden(x).allclose(want, 1e-4, 1e-5)) << spec;
  }
}

// ln(i + 1) / ln(train length): one at the last trained token, so nothing changes there.
TEST(Transformer, ScoresAreScaledByTheLogarithmOfTheLength) {
  const at::NoGradGuard quiet;
  ModelConfig config = small({"rope"});
  config.layers = 1;
  Transformer plain(config, context());
  config.score_scaling = config::ScoreScaling::kLog;
  Transformer fixed(config, context());
  config.score_scaling = config::ScoreScaling::kLearnedLog;
  Transformer learned(config, context());
  for (Transformer* model : {&plain, &fixed, &learned}) (*model)->eval();
  const at::Tensor x = tokens(1, 32);
  const at::Tensor a = plain->hidden(x)[0];
  const at::Tensor b = fixed->hidden(x)[0];
  EXPECT_TRUE(a[15].allclose(b[15], 1e-5, 1e-5));
  EXPECT_FALSE(a[31].allclose(b[31], 1e-5, 1e-5));
  EXPECT_TRUE(b.allclose(learned->hidden(x)[0], 1e-4, 1e-5));
}

TEST(Transformer, DropoutIsAFunctionOfTheStep) {
  ModelConfig config = small({"rope"});
  config.attention_dropout = 0.3;
  Transformer model(config, context());
  model->train();
  const auto run = [&](std::int64_t step) {
    model->set_step(step);
    return model->forward(tokens(1, 12)).detach();
  };
  const at::Tensor first = run(5);
  EXPECT_FALSE(first.equal(run(6)));
  EXPECT_TRUE(first.equal(run(5)));
}

}  // namespace
}  // namespace posenc::model
