// From learned or sinusoidal positions to RoPE: what is copied, what is left out, what must be learned.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "posenc/core/error.h"
#include "posenc/weights/convert.h"
#include "support/checkpoint_case.h"

namespace posenc::weights {
namespace {

using nlohmann::json;
using testing::file_content;
using testing::OwnedTensor;
using testing::random_tensor;
using testing::TemporaryFolder;
using testing::write_content;
using testing::write_tensors;
using Names = std::vector<std::string>;

Names names_with(const ConvertReport& report, TensorAction action) {
  Names names;
  for (const TensorReport& t : report.tensors) {
    if (t.action == action) names.push_back(t.tensor.name);
  }
  return names;
}

// GPT-2 with one layer, in the order of the file.
std::vector<OwnedTensor> gpt2() {
  Rng rng(3);
  std::vector<OwnedTensor> tensors;
  for (const auto& [name, shape] : std::vector<std::pair<std::string, Shape>>{
           {"wte.weight", {10, 4}},
           {"wpe.weight", {8, 4}},
           {"h.0.ln_1.weight", {4}},
           {"h.0.attn.c_attn.weight", {4, 12}},
           {"h.0.attn.c_proj.weight", {4, 4}},
           {"h.0.mlp.c_fc.weight", {4, 16}},
       }) {
    tensors.push_back(random_tensor(name, ElementType::kF32, shape, rng));
  }
  return tensors;
}

TEST(Positions, CopiesAllButThePositions) {
  const TemporaryFolder folder;
  const auto tensors = gpt2();
  write_tensors(folder / "in", tensors, {{"format", "pt"}});
  const auto report = convert_positions(folder / "in", folder / "out", {});
  EXPECT_EQ(names_with(report, TensorAction::kSkipped), Names{"wpe.weight"});
  const Reader out(folder / "out");
  EXPECT_EQ(out.tensors().size(), tensors.size() - 1);
  for (const OwnedTensor& tensor : tensors) {
    if (tensor.spec.name == "wpe.weight") continue;
    EXPECT_EQ(out.read(out.at(tensor.spec.name)), tensor.bytes);
  }
  EXPECT_EQ(out.find("wpe.weight"), nullptr);
  EXPECT_EQ(out.metadata(), (Metadata{{"format", "pt"}, {"posenc.positions", "rope"}}));
}

TEST(Positions, KnowsTheUsualNames) {
  const TemporaryFolder folder;
  Rng rng(4);
  const Names positional = {"transformer.wpe.weight",
                            "bert.embeddings.position_embeddings.weight",
                            "bert.embeddings.position_ids",
                            "model.decoder.embed_positions.weight",
                            "model.encoder.embed_positions.weights",
                            "pos_emb",
                            "blocks.pos_embed",
                            "pos_encoder.pe",
                            "text_model.positional_embedding",
                            "learned.weight"};
  const Names others = {"vision_model.embeddings.position_embedding.weight",
                        "embeddings.word_embeddings.weight", "wpexyz.weight", "pos_embx"};
  std::vector<OwnedTensor> tensors;
  for (const Names& names : {positional, others}) {
    for (const std::string& name : names) {
      tensors.push_back(random_tensor(name, ElementType::kU8, {3}, rng));
    }
  }
  write_tensors(folder / "in", tensors);
  const auto report = convert_positions(folder / "in", folder / "out", {});
  EXPECT_EQ(names_with(report, TensorAction::kSkipped), positional);
  EXPECT_EQ(names_with(report, TensorAction::kCopied), others);
  const auto own = convert_positions(folder / "in", folder / "out2", {.positional = {"pos_embx"}});
  EXPECT_EQ(names_with(own, TensorAction::kSkipped), Names{"pos_embx"});
}

TEST(Positions, TheTargetSaysWhatIsMissing) {
  const TemporaryFolder folder;
  write_tensors(folder / "in", gpt2());
  write_content(folder / "shapes.json", R"({"wte.weight": [10, 4], "h.0.ln_1.weight": [5],
      "h.0.attn.c_attn.weight": [4, 12], "rope.alpha": [2], "scale": []})");
  const auto report =
      convert_positions(folder / "in", folder / "out", {.target = folder / "shapes.json"});
  EXPECT_EQ(names_with(report, TensorAction::kCopied),
            (Names{"wte.weight", "h.0.attn.c_attn.weight"}));
  EXPECT_EQ(report.tensors[2].note, "target has shape [5]");
  EXPECT_EQ(report.tensors[4].note, "not in the target");
  ASSERT_EQ(report.left_at_initialisation.size(), 3u);
  EXPECT_EQ(report.left_at_initialisation[0].name, "h.0.ln_1.weight");
  EXPECT_EQ(report.left_at_initialisation[1].shape, Shape{2});
  // The same from a checkpoint.
  Rng rng(5);
  write_tensors(folder / "new", {random_tensor("wte.weight", ElementType::kF16, {10, 4}, rng),
                                 random_tensor("rope.alpha", ElementType::kF32, {2}, rng)});
  const auto again = convert_positions(folder / "in", folder / "out2", {.target = folder / "new"});
  EXPECT_EQ(names_with(again, TensorAction::kCopied), Names{"wte.weight"});
  ASSERT_EQ(again.left_at_initialisation.size(), 1u);
  EXPECT_EQ(again.left_at_initialisation[0].name, "rope.alpha");
}

TEST(Positions, FreezesAllButTheAttention) {
  const TemporaryFolder folder;
  write_tensors(folder / "in", gpt2());
  const auto report =
      convert_positions(folder / "in", folder / "out", {.freeze_except = {"attention"}});
  const Names trainable = {"h.0.attn.c_attn.weight", "h.0.attn.c_proj.weight"};
  const Names frozen = {"wte.weight", "h.0.ln_1.weight", "h.0.mlp.c_fc.weight"};
  EXPECT_EQ(report.trainable, trainable);
  EXPECT_EQ(report.frozen, frozen);
  const Reader out(folder / "out");
  EXPECT_EQ(json::parse(*find_metadata(out.metadata(), "posenc.trainable")), json(trainable));
  EXPECT_EQ(json::parse(*find_metadata(out.metadata(), "posenc.frozen")), json(frozen));
  const auto own =
      convert_positions(folder / "in", folder / "out2", {.freeze_except = {"ln_1", "attention"}});
  EXPECT_EQ(own.trainable.size(), 3u);
  EXPECT_THROW(convert_positions(folder / "in", folder / "o", {.freeze_except = {"zzz"}}), Error);
}

TEST(Positions, WhatStartsAfreshIsTrained) {
  const TemporaryFolder folder;
  write_tensors(folder / "in", gpt2());
  write_content(folder / "shapes.json", R"({"wte.weight": [10, 4], "rope.alpha": [2]})");
  const auto report =
      convert_positions(folder / "in", folder / "out",
                        {.target = folder / "shapes.json", .freeze_except = {"attention"}});
  EXPECT_EQ(report.trainable, Names{"rope.alpha"});
  EXPECT_EQ(report.frozen, Names{"wte.weight"});
}

TEST(Positions, ShardsGetANewIndex) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "in");
  Rng rng(6);
  write_tensors(folder / "in/a.safetensors",
                {random_tensor("wpe.weight", ElementType::kF32, {6, 2}, rng),
                 random_tensor("w", ElementType::kF32, {5}, rng)});
  write_tensors(folder / "in/b.safetensors", {random_tensor("x", ElementType::kF32, {2}, rng)});
  write_content(folder / "in/model.safetensors.index.json",
                R"({"metadata": {"total_size": 76, "by": "x \" y", "f": 1.5}, "weight_map":
                  {"wpe.weight": "a.safetensors", "w": "a.safetensors", "x": "b.safetensors"}})");
  convert_positions(folder / "in", folder / "out", {});
  const json index = json::parse(file_content(folder / "out/model.safetensors.index.json"));
  EXPECT_EQ(index["metadata"], (json{{"total_size", 28}, {"by", "x \" y"}, {"f", 1.5}}));
  EXPECT_EQ(index["weight_map"], (json{{"w", "a.safetensors"}, {"x", "b.safetensors"}}));
  EXPECT_EQ(convert_positions(folder / "out", folder / "again", {}).tensors.size(), 2u)
      << "and the new folder is a checkpoint";
}

TEST(Positions, MistakesAreNamed) {
  const TemporaryFolder folder;
  write_tensors(folder / "in", gpt2());
  const auto refusal = [&](const PositionOptions& options) -> std::string {
    try {
      convert_positions(folder / "in", folder / "out", options);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  write_content(folder / "list.json", R"({"a": 5})");
  EXPECT_NE(refusal({.spec = "rop"}).find("did you mean 'rope'?"), std::string::npos);
  EXPECT_NE(refusal({.spec = "rope + learned"}).find("must not add vectors"), std::string::npos);
  EXPECT_NE(refusal({.target = folder / "list.json"}).find("must be a list of shapes"),
            std::string::npos);
  EXPECT_NE(refusal({.positional = {"*"}}).find("would copy no tensor"), std::string::npos);
  EXPECT_EQ(folder.files(), (Names{"in", "list.json"}));
}

}  // namespace
}  // namespace posenc::weights
