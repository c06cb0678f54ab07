#include "pretrained/hf_tensors.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "config/hf_model.h"
#include "core/value.h"
#include "pretrained/floats.h"
#include "pretrained/weight_source.h"
#include "support/checkpoint_case.h"
#include "support/message_of.h"
#include "support/paths.h"

namespace posenc::pretrained {
namespace {

using testing::message_of;

std::string folder_of(const std::string& family) {
  return std::string(posenc::testing::kTestData) + "/golden/hf_models/" + family;
}
config::ModelConfig model_of(const std::string& family) {
  return config::read_init_source(folder_of(family)).model.value();
}

// Every number of every tensor of the file is one number of the lab's.
TEST(HfTensors, PlacesCoverEachTensorOnce) {
  for (const char* family : {"llama", "qwen2", "qwen3", "gpt_neox", "gpt2"}) {
    const auto model = model_of(family);
    std::map<std::string, std::set<std::size_t>> seen;
    std::map<std::string, std::size_t> sizes;
    for (const TensorRule& rule : hf_tensors(hf_names(model), model, 32)) {
      const std::int64_t columns = rule.lab_shape.size() > 1 ? rule.lab_shape[1] : 1;
      sizes[rule.file] = *weights::byte_length(weights::ElementType::kF32, rule.file_shape) / 4;
      for (std::int64_t row = 0; row < rule.lab_shape.front(); ++row) {
        for (std::int64_t column = 0; column < columns; ++column) {
          EXPECT_TRUE(seen[rule.file].insert(rule.place(row, column)).second) << rule.file;
        }
      }
    }
    for (const auto& [name, places] : seen) {
      EXPECT_EQ(places.size(), sizes[name]) << name;
      EXPECT_EQ(*places.rbegin() + 1, sizes[name]) << name;
    }
  }
}

TEST(HfTensors, KnowsFamiliesWithAndWithoutTheirPrefix) {
  EXPECT_EQ(hf_names_in({"model.embed_tokens.weight"}), HfNames::kLlama);
  EXPECT_EQ(hf_names_in({"a", "wte.weight"}), HfNames::kGpt2);
  EXPECT_EQ(hf_names_in({"gpt_neox.embed_in.weight"}), HfNames::kNeox);
  EXPECT_EQ(hf_names_in({"embed.weight"}), std::nullopt);
  EXPECT_TRUE(is_constant(HfNames::kGpt2, "h.0.attn.bias"));
  EXPECT_FALSE(is_constant(HfNames::kGpt2, "h.0.attn.c_attn.bias"));
  EXPECT_TRUE(is_constant(HfNames::kNeox, "gpt_neox.layers.0.attention.masked_bias"));
  EXPECT_FALSE(is_constant(HfNames::kNeox, "gpt_neox.layers.0.attention.dense.bias"));
}

TEST(Floats, AreExactInEveryType) {
  const testing::TemporaryFolder folder;
  const auto tensor = [](const char* name, weights::ElementType type,
                         const std::vector<std::uint16_t>& bits) {
    testing::OwnedTensor t{{name, type, {std::ssize(bits)}}, {}};
    t.bytes.resize(2 * bits.size());
    std::memcpy(t.bytes.data(), bits.data(), t.bytes.size());
    return t;
  };
  testing::write_tensors(
      folder / "a.safetensors",
      {tensor("half", weights::ElementType::kF16, {0x3c00, 0xc000, 0x0001, 0x83ff, 0x7bff, 0x8000}),
       tensor("brain", weights::ElementType::kBf16, {0x3f80, 0xc049, 0x0001}),
       tensor("whole", weights::ElementType::kI16, {1})});
  const weights::Reader reader(folder / "a.safetensors");
  EXPECT_EQ(read_floats(reader, reader.at("half")),
            (std::vector<float>{1.0F, -2.0F, 0x1p-24F, -1023 * 0x1p-24F, 65504.0F, -0.0F}));
  EXPECT_EQ(read_floats(reader, reader.at("brain")),
            (std::vector<float>{1.0F, -3.140625F, 0x1p-133F}));
  EXPECT_NE(message_of([&] {
              (void)read_floats(reader, reader.at("whole"));
            }).find("'whole' must be F32, BF16 or F16 but got I16"),
            std::string::npos);
}

WeightSource source_of(const std::string& path, const config::ModelConfig& model) {
  return {config::read_init_source(path), model, 32};
}

TEST(WeightSource, NamesEveryTensorThatDoesNotFit) {
  const auto model = model_of("llama");
  auto other = model;
  other.qk_norm = true;   // missing
  other.mlp_ratio = 2.0;  // another shape
  other.layers = 1;       // unexpected
  const std::string said = message_of([&] { (void)source_of(folder_of("llama"), other); });
  for (const char* part :
       {"does not hold the weights of this model",
        "missing: model.layers.0.self_attn.q_norm.weight, model.layers.0.self_attn.k_norm.weight",
        "unexpected: model.layers.1.input_layernorm.weight", " and 3 more",
        "model.layers.0.mlp.gate_proj.weight is [40, 24], not [48, 24]"}) {
    EXPECT_NE(said.find(part), std::string::npos) << part << "\n" << said;
  }
  EXPECT_EQ(said.find("layers.0.self_attn.v_proj"), std::string::npos) << said;
}

TEST(WeightSource, ReadsShardsAndTheirIndex) {
  const auto model = model_of("gpt_neox");
  const WeightSource folder = source_of(folder_of("gpt_neox"), model);
  const WeightSource index =
      source_of(folder_of("gpt_neox") + "/model.safetensors.index.json", model);
  EXPECT_EQ(folder.tensors(), index.tensors());
  EXPECT_EQ(folder.read("blocks.1.attention.k_proj.weight"),
            index.read("blocks.1.attention.k_proj.weight"));
  EXPECT_EQ(folder.sha256().size(), 64U);
}

TEST(WeightSource, ATiedHeadMustBeTheEmbedding) {
  const testing::TemporaryFolder folder;
  const auto model = model_of("qwen2");
  const weights::Reader reader(folder_of("qwen2") + "/model.safetensors");
  std::vector<testing::OwnedTensor> tensors;
  for (const weights::TensorInfo& info : reader.tensors()) {
    tensors.push_back({info, reader.read(info)});
  }
  testing::OwnedTensor head = tensors.front();
  ASSERT_EQ(head.spec.name, "model.embed_tokens.weight");
  head.spec.name = "lm_head.weight";
  tensors.push_back(head);
  testing::write_tensors(folder / "a.safetensors", tensors);
  EXPECT_EQ(source_of(folder / "a.safetensors", model).tensors().count("head.weight"), 0U);
  tensors.back().bytes.front() ^= std::byte{1};
  testing::write_tensors(folder / "a.safetensors", tensors);
  EXPECT_NE(message_of([&] {
              (void)source_of(folder / "a.safetensors", model);
            }).find("'lm_head.weight' must equal the embedding, because the model is tied"),
            std::string::npos);
}

}  // namespace
}  // namespace posenc::pretrained
