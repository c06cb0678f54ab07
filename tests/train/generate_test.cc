// Text that a model continues: the cache and full recomputation say the same, seeds repeat, mistakes are named.
#include "train/generate.h"

#include <gtest/gtest.h>

#include "core/value.h"
#include "posenc/core/rng.h"
#include "pretrained/export.h"
#include "runs/attention_record.h"
#include "support/paths.h"
#include "tokens/token_writer.h"
#include "tokens/tokenizer.h"
#include "train/lab_process.h"

namespace posenc::train {
namespace {

model::Transformer random_model(const std::string& spec, config::ModelConfig config = {}) {
  config.encoding = {spec};
  config.dim = 32;
  config.layers = 2;
  config.heads = 4;
  const model::ModelContext context{
      .vocabulary = 40, .causal = true, .train_length = 16, .seed = 5};
  model::Transformer model(config, context);
  model->eval();
  return model;
}

const std::vector<std::int64_t> kPrompt = {3, 1, 4, 1, 5, 9, 2, 6};

TEST(Generate, GreedyTokensAreThoseOfFullRecomputation) {
  for (const char* spec :
       {"none", "rope",
        "rope(schedule=dynamic(factor=2, "
        "max_position_embeddings=16))",
        "alibi", "rope + cope(npos_max=8)", "fire", "learned(max_positions=64)", "t5", "fox"}) {
    auto model = random_model(spec);
    const Sampling greedy{.temperature = 0.0};
    const auto cached = generate_tokens(model, kPrompt, 40, 40, greedy, Decoding::kCache);
    const auto again = generate_tokens(model, kPrompt, 40, 40, greedy, Decoding::kRecompute);
    EXPECT_EQ(cached, again) << spec;
    EXPECT_EQ(cached.size(), 40U);
  }
}

TEST(Generate, SeedsRepeatAndDiffer) {
  auto model = random_model("rope");
  const auto drawn = [&](std::int64_t seed, double temperature) {
    return generate_tokens(model, kPrompt, 30, 40, {.temperature = temperature, .seed = seed},
                           Decoding::kCache);
  };
  EXPECT_EQ(drawn(1, 1.0), drawn(1, 1.0));
  EXPECT_NE(drawn(1, 1.0), drawn(2, 1.0));
  // Nearly all of a cold distribution is its likeliest token.
  EXPECT_EQ(drawn(1, 1e-6), drawn(1, 0.0));
}

// Rows of the embedding that have no text are never said.
TEST(Generate, StaysBelowTheVocabulary) {
  auto model = random_model("rope");
  for (const std::int64_t token : generate_tokens(
           model, kPrompt, 60, 7, {.temperature = 100.0, .seed = 1}, Decoding::kCache)) {
    EXPECT_LT(token, 7);
  }
}

class GenerateRuns : public ::testing::Test {
 protected:
  GenerateRuns() {
    std::filesystem::create_directory(folder_ / "texts");
    for (int i = 0; i < 10; ++i) {
      Rng rng(static_cast<std::uint64_t>(i));
      std::string text;
      while (text.size() < 600) text += static_cast<char>('a' + rng.integer(0, 25));
      folder_.write("texts/" + std::to_string(i), text);
    }
  }
  [[nodiscard]] testing::LabResult train(const std::string& model, const std::string& task) const {
    const std::string config = "task: " + task + "\nmodel: {layers: 1, dim: 16, heads: 2" + model +
                               "}\ntrain: {length: 16, batch: 4, steps: 2}\n"
                               "eval: {factors: [1], samples: 2}\n";
    return testing::run_lab("train " + folder_.write("config.yaml", config) +
                            " --progress quiet --out " + run());
  }
  [[nodiscard]] std::string text_task() const {
    return "{language_model: {path: " + (folder_ / "texts") + ", longest_context: 32}}";
  }
  [[nodiscard]] std::string run() const { return folder_ / "run"; }
  [[nodiscard]] testing::LabResult generate(const std::string& words) const {
    return testing::run_lab("generate " + run() + " " + words);
  }
  testing::Folder folder_;
};

TEST_F(GenerateRuns, ContinueTextByBytes) {
  ASSERT_EQ(train(", encoding: rope", text_task()).code, 0);
  const auto plain = generate("--prompt 'Call me' --tokens 12 --greedy --progress plain");
  ASSERT_EQ(plain.code, 0) << plain.out;
  EXPECT_NE(plain.out.find("step 2, 12 tokens after 7; decoding: key/value cache"),
            std::string::npos)
      << plain.out;
  EXPECT_NE(plain.out.find("\nCall me"), std::string::npos) << plain.out;
  const auto cached = generate("--prompt 'Call me' --tokens 12 --greedy --json --progress quiet");
  const auto again =
      generate("--prompt 'Call me' --tokens 12 --greedy --json --no-cache --progress quiet");
  const Value first = parse_json(cached.out, "cached");
  const Value second = parse_json(again.out, "again");
  EXPECT_EQ(*first.find("tokens"), *second.find("tokens"));
  EXPECT_EQ(*second.find("decoding"),
            Value::of_string("all tokens again for each one: --no-cache"));
}

TEST_F(GenerateRuns, ContinueWordsOfOtherTasks) {
  ASSERT_EQ(train(", encoding: rope, attention: linear", "{flip_flop: {}}").code, 0);
  const auto said = generate("--prompt 'nonsense' --tokens 3");
  EXPECT_EQ(said.code, 2);
  EXPECT_NE(said.out.find("[generate] text must be words of the task but got 'nonsense'"),
            std::string::npos)
      << said.out;
  const auto sample = testing::run_lab("attention " + run() + " --text 'w 1' --out x");
  EXPECT_NE(sample.code, 0);  // linear attention has no weights to look at
  const auto fine = generate("--prompt 'w 1 i 0 r' --tokens 3 --progress plain");
  ASSERT_EQ(fine.code, 0) << fine.out;
  EXPECT_NE(fine.out.find("all tokens again for each one: model.attention is linear"),
            std::string::npos)
      << fine.out;
}

TEST_F(GenerateRuns, RefuseWhatCannotBeContinued) {
  ASSERT_EQ(train(", encoding: learned(max_positions=32)", text_task()).code, 0);
  const auto longer = generate("--prompt 'Call me' --tokens 26");
  EXPECT_EQ(longer.code, 2);
  EXPECT_NE(
      longer.out.find("--tokens must be at most 25: the table of positions ends at 32 but got "
                      "26"),
      std::string::npos)
      << longer.out;
  EXPECT_EQ(generate("--prompt 'Call me' --tokens 25 --progress quiet").code, 0);
  const auto empty = generate("--prompt ''");
  EXPECT_EQ(empty.code, 2);
  EXPECT_NE(empty.out.find("must have at least one token"), std::string::npos) << empty.out;
}

// A run that is exported and gets a tokenizer speaks as a Hugging Face folder.
TEST_F(GenerateRuns, ContinueWithTheTokenizerOfAHuggingFaceFolder) {
  const std::string tokenizer =
      std::string(posenc::testing::kTestData) + "/golden/tokenizers/gpt2.json";
  const std::int64_t rows = tokens::Tokenizer::read(tokenizer).vocabulary();
  ASSERT_EQ(train(", encoding: rope, vocabulary: " + std::to_string(rows), text_task()).code, 0);
  const std::string folder = folder_ / "hf";
  (void)pretrained::export_hf(run(), folder, {});
  const std::string words = folder + " --prompt 'the whale' --tokens 5 --greedy --json";
  const auto bare = testing::run_lab("generate " + words);
  EXPECT_EQ(bare.code, 2);
  EXPECT_NE(bare.out.find("tokenizer.json"), std::string::npos) << bare.out;
  std::filesystem::copy_file(tokenizer, folder + "/tokenizer.json");
  const auto cached = testing::run_lab("generate " + words + " --progress quiet");
  ASSERT_EQ(cached.code, 0) << cached.out;
  const auto again = testing::run_lab("generate " + words + " --no-cache --progress quiet");
  const Value first = parse_json(cached.out, "cached");
  EXPECT_EQ(*first.find("tokens"), *parse_json(again.out, "again").find("tokens"));
  EXPECT_LT(first.find("prompt_tokens")->get_if<Value::List>()->size(), 9U);
}

// A run on token files speaks with their tokenizer, named as a corpus or by their path, and takes it along when exported.
TEST_F(GenerateRuns, ContinueWithTheTokenizerOfTokenFiles) {
  const std::string golden =
      std::string(posenc::testing::kTestData) + "/golden/tokenizers/gpt2.json";
  const tokens::Tokenizer tokenizer = tokens::Tokenizer::read(golden);
  tokens::TokenWriter writer(
      tokenizer, {.folder = folder_ / "whales", .validation_share = 0.3, .test_share = 0.3});
  for (int i = 0; i < 60; ++i) {
    std::string text;
    for (int word = 0; word < 60; ++word) text += " whale " + std::to_string(i * word);
    tokens::SourceDocument document{"d" + std::to_string(i), text};
    writer.add(document);
  }
  (void)writer.finish();
  ::setenv("POSENC_DATA", (folder_ / "").c_str(), 1);
  const auto trained = train(", encoding: rope",
                             "{language_model: {tokens: whales, longest_context: 32, scored: 4}}");
  ASSERT_EQ(trained.code, 0) << trained.out;
  const std::string words = " --prompt 'the whale' --tokens 5 --greedy --json --progress quiet";
  const auto by_name = testing::run_lab("generate " + run() + words);
  ASSERT_EQ(by_name.code, 0) << by_name.out;
  const auto looked =
      testing::run_lab("attention " + run() + " --text 'the whale' --progress quiet --out " +
                       (folder_ / "record.safetensors"));
  EXPECT_EQ(looked.code, 0) << looked.out;
  const auto exported = pretrained::export_hf(run(), folder_ / "hf", {});
  EXPECT_NE(std::find(exported.files.begin(), exported.files.end(), "tokenizer.json"),
            exported.files.end());
  const auto from_folder = testing::run_lab("generate " + (folder_ / "hf") + words);
  ::unsetenv("POSENC_DATA");
  ASSERT_EQ(from_folder.code, 0) << from_folder.out;
  EXPECT_EQ(*parse_json(by_name.out, "run").find("tokens"),
            *parse_json(from_folder.out, "folder").find("tokens"));
}

TEST_F(GenerateRuns, AttentionOfOnesOwnText) {
  ASSERT_EQ(train(", encoding: rope + cope(npos_max=8)", text_task()).code, 0);
  const auto looked =
      testing::run_lab("attention " + run() + " --text 'the cat' --progress quiet --out " +
                       (folder_ / "record.safetensors"));
  ASSERT_EQ(looked.code, 0) << looked.out;
  const auto record = runs::read_attention(folder_ / "record.safetensors");
  EXPECT_EQ(record.example.axis, "text");
  EXPECT_EQ(record.example.tokens, (std::vector<std::string>{"t", "h", "e", "\\s", "c", "a", "t"}));
  EXPECT_EQ(record.example.scored.size(), 6U);
  EXPECT_EQ(record.example.scored.front().expected, "h");
  EXPECT_TRUE(record.layers.front().has_cope());
}

}  // namespace
}  // namespace posenc::train
