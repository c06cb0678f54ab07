// Models that start from other weights: against logits that an independent implementation computed
// (tests/golden/hf_models.py), and runs that go on from runs.
#include "train/init_weights.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <limits>
#include <map>

#include "config/init_from.h"
#include "posenc/weights/safetensors.h"
#include "pretrained/export.h"
#include "runs/checkpoints.h"
#include "runs/run_directory.h"
#include "support/golden.h"
#include "support/message_of.h"
#include "support/paths.h"
#include "support/temporary_folder.h"
#include "train/lab_process.h"
#include "train/trainer.h"

namespace posenc::train {
namespace {

using posenc::testing::message_of;

const std::vector<std::string> kFamilies = {"llama", "qwen2", "qwen3", "gpt_neox", "gpt2"};

std::string golden_folder(const std::string& family) {
  return std::string(posenc::testing::kTestData) + "/golden/hf_models/" + family;
}

constexpr const char* kBase =
    "task: {flip_flop: {}}\n"
    "model: {encoding: rope, dim: 16, layers: 1, heads: 2}\n"
    "train: {length: 16, batch: 4, steps: 3}\n"
    "eval: {samples: 2, factors: [1]}\n";

std::string config_text(const std::string& init_from, const std::string& model = "",
                        int length = 16) {
  return "task: {flip_flop: {}}\n" + (model.empty() ? "" : "model: {" + model + "}\n") +
         "train: {init_from: " + init_from + ", length: " + std::to_string(length) +
         ", batch: 2, steps: 1, lr: 1e-30, weight_decay: 0}\n"
         "eval: {samples: 2, factors: [1]}\n";
}

struct Loaded {
  model::Transformer model{nullptr};
  InitReport report;
};

Loaded load(const std::string& init_from, const std::string& fields = "", int length = 16) {
  const auto config = config::parse_config(config_text(init_from, fields, length), "a.yaml").config;
  const auto task = tasks::make_task(config.task);
  Loaded loaded;
  loaded.model = model::Transformer(config.model, model_context(config, *task));
  loaded.report = init_weights(loaded.model, config, *task);
  loaded.model->eval();
  return loaded;
}

at::Tensor golden_tokens(const posenc::testing::Json& golden) {
  return at::tensor(golden["tokens"].get<std::vector<std::int64_t>>(), at::kLong).unsqueeze(0);
}

double logits_apart(model::Transformer& model, const posenc::testing::Json& golden) {
  const at::NoGradGuard quiet;
  const at::Tensor logits = model->forward(golden_tokens(golden)).squeeze(0).to(at::kDouble);
  double apart = 0.0;
  for (std::size_t t = 0; t < golden["logits"].size(); ++t) {
    const auto row = at::tensor(golden["logits"][t].get<std::vector<double>>(), at::kDouble);
    apart =
        std::max(apart, (logits[static_cast<std::int64_t>(t)] - row).abs().max().item<double>());
  }
  return apart;
}

TEST(InitWeights, GiveTheLogitsOfEachFamily) {
  for (const std::string& family : kFamilies) {
    const auto golden = posenc::testing::load_golden("hf_models/" + family + "/logits.json");
    Loaded loaded = load(golden_folder(family));
    EXPECT_LT(logits_apart(loaded.model, golden), 1e-4) << family;
    EXPECT_NE(loaded.report.text().find("initial weights: "), std::string::npos);
    EXPECT_EQ(loaded.report.encoding, "");
  }
}

// The bound means something: each field that tells the families apart moves the logits past it.
TEST(InitWeights, EveryFieldOfTheShapesMatters) {
  const std::vector<std::pair<std::string, std::function<void(config::ModelConfig&)>>> changes = {
      {"llama", [](auto& m) { m.norm_eps = 1e-3; }},
      {"llama", [](auto& m) { m.encoding = {"rope(theta=500)"}; }},
      {"qwen3", [](auto& m) { m.norm_eps = 1e-3; }},
      {"gpt_neox", [](auto& m) { m.norm_eps = 1e-3; }},
      {"gpt_neox", [](auto& m) { m.parallel = false; }},
      {"gpt_neox", [](auto& m) { m.mlp = config::Mlp::kGeluTanh; }},
      {"gpt_neox", [](auto& m) { m.encoding = {"rope"}; }},
      {"gpt2", [](auto& m) { m.mlp = config::Mlp::kGelu; }}};
  for (const auto& [family, change] : changes) {
    const auto golden = posenc::testing::load_golden("hf_models/" + family + "/logits.json");
    auto config = config::parse_config(config_text(golden_folder(family)), "a.yaml").config;
    change(config.model);
    const auto task = tasks::make_task(config.task);
    model::Transformer model(config.model, model_context(config, *task));
    (void)init_weights(model, config, *task);
    model->eval();
    EXPECT_GT(logits_apart(model, golden), 1e-4) << family;
  }
}

TEST(InitWeights, DecodeWithACacheAsWithout) {
  for (const std::string& family : kFamilies) {
    const auto golden = posenc::testing::load_golden("hf_models/" + family + "/logits.json");
    Loaded loaded = load(golden_folder(family));
    const at::NoGradGuard quiet;
    const at::Tensor tokens = golden_tokens(golden);
    const at::Tensor all = loaded.model->hidden(tokens);
    std::vector<nn::KeyValueCache> caches;
    for (std::int64_t t = 0; t < tokens.size(1); ++t) {
      const at::Tensor one = loaded.model->decode(tokens.narrow(1, t, 1), caches);
      EXPECT_TRUE(at::allclose(one, all.narrow(1, t, 1), 1e-4, 1e-4)) << family << " at " << t;
    }
  }
}

TEST(InitWeights, NewEncodingsComputeTheSameWhereTheyCan) {
  for (const char* added : {"cope(npos_max=8)", "t5", "relative", "fire", "relative_query",
                            "cope(npos_max=8, variant=alibi)"}) {
    const std::string spec =
        "rope(schedule=yarn(factor=4, original_max_position_embeddings=16)) + ";
    const Loaded loaded =
        load(golden_folder("qwen3"), "encoding: \"" + spec + std::string(added) + "\"");
    EXPECT_NE(loaded.report.encoding.find("the model still computes the same"), std::string::npos)
        << loaded.report.encoding;
    EXPECT_NE(loaded.report.encoding.find("new parameters: pos."), std::string::npos)
        << loaded.report.encoding;
  }
}

TEST(InitWeights, SayWhereTheyCannot) {
  for (const char* other : {"none", "alibi", "rope", "fox"}) {
    const Loaded loaded = load(golden_folder("qwen3"), std::string("encoding: ") + other);
    EXPECT_NE(loaded.report.encoding.find("the model does not compute the same"), std::string::npos)
        << loaded.report.encoding;
  }
  // A learned table may grow.
  const Loaded longer = load(golden_folder("gpt2"), "encoding: learned(max_positions=40)");
  EXPECT_NE(longer.report.encoding.find("still computes the same"), std::string::npos)
      << longer.report.encoding;
}

// That of RUN/config.yaml says all fields, so none of them is filled in from the source.
TEST(InitWeights, AConfigOfAllFieldsMustHaveTheShapeOfTheSource) {
  const auto source = config::read_init_source(golden_folder("qwen3"));
  config::ModelConfig model = *source.model;
  EXPECT_NO_THROW(config::require_shape_of(source, model));
  model.encoding = {"none"};
  model.dropout = 0.5;
  EXPECT_NO_THROW(config::require_shape_of(source, model)) << "free";
  model.mlp_ratio += 1.0;
  EXPECT_NE(message_of([&] {
              config::require_shape_of(source, model);
            }).find("[model] mlp_ratio must be"),
            std::string::npos);
}

TEST(InitWeights, MustBeFinite) {
  const posenc::testing::TemporaryFolder folder;
  const std::string copy = folder / "llama";
  std::filesystem::copy(golden_folder("llama"), copy);
  const std::string file = copy + "/model.safetensors";
  std::string bytes = posenc::testing::file_content(file);
  const float wrong = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(bytes.data() + bytes.size() - sizeof(wrong), &wrong, sizeof(wrong));
  posenc::testing::write_content(file, bytes);
  const std::string said = message_of([&] { (void)load(copy); });
  EXPECT_NE(said.find("must have finite weights but got nan"), std::string::npos) << said;
}

// A schedule that changes nothing up to 64 tokens is not the same model for a training at 128.
TEST(InitWeights, CompareAsManyTokensAsATrainingHas) {
  const std::string later =
      "encoding: \"rope(theta=1000000, schedule=dynamic(factor=4, max_position_embeddings=64))\"";
  const std::string short_rows = load(golden_folder("qwen2"), later, 64).report.encoding;
  EXPECT_NE(short_rows.find("still computes the same (logits of 64 tokens"), std::string::npos)
      << short_rows;
  const std::string long_rows = load(golden_folder("qwen2"), later, 128).report.encoding;
  EXPECT_NE(long_rows.find("does not compute the same (logits of 128 tokens"), std::string::npos)
      << long_rows;
}

// --- as a user runs it -----------------------------------------------------------------------------

using Bytes = std::map<std::string, std::vector<std::byte>>;

Bytes weights_of(const std::string& run) {
  const auto checkpoint =
      runs::CheckpointReader(std::filesystem::path(run) / "checkpoints").load_latest();
  Bytes all;
  for (const auto& info : checkpoint->group("model").tensors()) {
    all[info.name] = checkpoint->group("model").read(info);
  }
  return all;
}

testing::LabResult train(const posenc::testing::TemporaryFolder& folder, const std::string& name,
                         const std::string& config) {
  posenc::testing::write_content(folder / (name + ".yaml"), config);
  return testing::run_lab("train " + (folder / (name + ".yaml")) + " --progress plain --out " +
                          (folder / name));
}

TEST(InitWeights, LoadExportLoadHasTheSameBits) {
  const posenc::testing::TemporaryFolder folder;
  for (const std::string& family : kFamilies) {
    const auto first = train(folder, family, config_text(golden_folder(family)));
    ASSERT_EQ(first.code, 0) << first.out;
    EXPECT_NE(first.out.find("of Hugging Face)"), std::string::npos) << first.out;
    const auto done = pretrained::export_hf(folder / family, folder / (family + "_hf"), {});
    EXPECT_EQ(done.model_type, family);
    const auto second = train(folder, family + "_2", config_text(folder / (family + "_hf")));
    ASSERT_EQ(second.code, 0) << second.out;
    EXPECT_EQ(weights_of(folder / family), weights_of(folder / (family + "_2"))) << family;
    const auto golden = posenc::testing::load_golden("hf_models/" + family + "/logits.json");
    Loaded loaded = load(folder / (family + "_hf"));
    EXPECT_LT(logits_apart(loaded.model, golden), 1e-4) << family;
  }
}

TEST(InitWeights, GoOnFromARunAndFromItsFile) {
  const posenc::testing::TemporaryFolder folder;
  ASSERT_EQ(train(folder, "base", kBase).code, 0);
  const auto again = train(folder, "again", config_text(folder / "base"));
  ASSERT_EQ(again.code, 0) << again.out;
  EXPECT_NE(again.out.find("(run at step 3)"), std::string::npos) << again.out;
  EXPECT_EQ(weights_of(folder / "again"), weights_of(folder / "base"));
  const Value environment =
      runs::RunDirectory::open(folder / "again", runs::Access::kRead).environment();
  EXPECT_EQ(environment.find("init_from")->find("sha256")->get_if<std::string>()->size(), 64U);
  // Of a file the config must say the shape.
  const std::string file = folder / "base/checkpoints/step-00000003/model.safetensors";
  const auto shaped =
      train(folder, "shaped", config_text(file, "encoding: rope, dim: 16, layers: 1, heads: 2"));
  ASSERT_EQ(shaped.code, 0) << shaped.out;
  EXPECT_EQ(weights_of(folder / "shaped"), weights_of(folder / "base"));
  const auto wrong = train(folder, "wrong", config_text(file, "dim: 32, layers: 2, heads: 2"));
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.out.find("missing: blocks.1."), std::string::npos) << wrong.out;
  EXPECT_NE(wrong.out.find("embed.weight is ["), std::string::npos) << wrong.out;
  EXPECT_FALSE(std::filesystem::exists(folder / "wrong"));
  const auto gone = train(folder, "gone", config_text(folder / "nowhere"));
  EXPECT_EQ(gone.code, 2);
  EXPECT_NE(gone.out.find("[train] init_from must be a run directory, a safetensors file or a "
                          "Hugging Face folder"),
            std::string::npos)
      << gone.out;
  EXPECT_FALSE(std::filesystem::exists(folder / "gone"));
}

// A file of weights alone does not say its encoding: what fits no parameter, and what it does not have, is said.
TEST(InitWeights, SayWhatAFileHasMoreOrLess) {
  const posenc::testing::TemporaryFolder folder;
  const std::string shape = "dim: 16, layers: 1, heads: 2, encoding: ";
  const auto base = [&](const std::string& name, const std::string& encoding) {
    const auto done = train(folder, name,
                            "task: {flip_flop: {}}\nmodel: {" + shape + encoding +
                                "}\ntrain: {length: 16, batch: 4, steps: 1}\n"
                                "eval: {samples: 2, factors: [1]}\n");
    EXPECT_EQ(done.code, 0) << done.out;
    return folder / (name + "/checkpoints/step-00000001/model.safetensors");
  };
  const std::string with_cope = base("with_cope", "rope + cope(npos_max=8)");
  const std::string with_rope = base("with_rope", "rope");
  EXPECT_EQ(load(with_cope, shape + "rope").report.encoding, "left out: pos.cope.pos_emb");
  EXPECT_EQ(load(with_rope, shape + "rope + cope(npos_max=8)").report.encoding,
            "new parameters: pos.cope.pos_emb");
  EXPECT_EQ(load(with_cope, shape + "rope + t5").report.encoding,
            "new parameters: pos.t5.weight; left out: pos.cope.pos_emb");
  EXPECT_EQ(load(with_cope, shape + "rope + cope(npos_max=8)").report.encoding, "");
  // Where the source says its encoding, the same follows the comparison.
  const std::string run = load(folder / "with_cope", "encoding: rope").report.encoding;
  EXPECT_NE(run.find("compute the same"), std::string::npos) << run;
  EXPECT_NE(run.find("; left out: pos.cope.pos_emb"), std::string::npos) << run;
}

// Rank 0 reads the weights, and the others get them from it.
TEST(InitWeights, AreThoseOfAllProcesses) {
  const posenc::testing::TemporaryFolder folder;
  ASSERT_EQ(train(folder, "base", kBase).code, 0);
  posenc::testing::write_content(folder / "two.yaml", config_text(folder / "base"));
  const auto two = testing::run_lab("train " + (folder / "two.yaml") +
                                    " --procs 2 --progress plain --out " + (folder / "two"));
  ASSERT_EQ(two.code, 0) << two.out;
  EXPECT_EQ(weights_of(folder / "two"), weights_of(folder / "base"));
  std::size_t said = 0;
  for (std::size_t at = 0; (at = two.out.find("initial weights: ", at)) != std::string::npos;
       ++at) {
    ++said;
  }
  EXPECT_EQ(said, 1U) << two.out;
}

TEST(InitWeights, ReplacedEncodingsTrainInStages) {
  const posenc::testing::TemporaryFolder folder;
  ASSERT_EQ(train(folder, "base", kBase).code, 0);
  const auto longer =
      train(folder, "longer",
            "task: {flip_flop: {}}\n"
            "model: {encoding: \"rope(schedule=linear(factor=4)) + cope(npos_max=8)\"}\n"
            "train:\n  init_from: " +
                (folder / "base") +
                "\n  stages: [{length: 32, batch: 2, steps: 2}, {length: 64, batch: 1, steps: 2}]\n"
                "eval: {samples: 2, factors: [1]}\n");
  ASSERT_EQ(longer.code, 0) << longer.out;
  EXPECT_NE(longer.out.find("'rope(schedule=linear(factor=4)) + cope(npos_max=8)' replaces 'rope': "
                            "the model does not compute the same"),
            std::string::npos)
      << longer.out;
  EXPECT_EQ(weights_of(folder / "longer").count("blocks.0.attention.pos.cope.pos_emb"), 1U);
}

TEST(ExportHf, RefusesWhatCannotBeWritten) {
  const posenc::testing::TemporaryFolder folder;
  const std::string base =
      "task: {flip_flop: {}}\n"
      "model: {encoding: rope + alibi, dim: 16, layers: 1, heads: 2}\n"
      "train: {length: 16, batch: 4, steps: 1}\n"
      "eval: {samples: 2, factors: [1]}\n";
  ASSERT_EQ(train(folder, "base", base).code, 0);
  EXPECT_NE(message_of([&] {
              (void)pretrained::export_hf(folder / "base", folder / "x", {});
            }).find("model.encoding must be one rope, or one learned"),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder / "x"));
}

}  // namespace
}  // namespace posenc::train
