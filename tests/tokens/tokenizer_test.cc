#include "tokens/tokenizer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "posenc/core/rng.h"
#include "support/message_of.h"
#include "tokens/train.h"

namespace posenc::tokens {
namespace {

using Json = nlohmann::json;
using testing::message_of;

TokenizerParts small_parts(SplitPattern pattern = SplitPattern::kGpt2) {
  Trainer trainer({.vocabulary = 300, .pattern = pattern});
  for (int i = 0; i < 3; ++i) trainer.add("the whale the sea the white whale, they said; 1851\n");
  return trainer.train();
}

Json small_json() { return Json::parse(tokenizer_json(small_parts())); }

std::string problem(const Json& json) {
  return message_of([&] { (void)Tokenizer::parse(json.dump(), "t.json"); });
}

// The pair with the lowest rank, the leftmost first: by its definition.
std::vector<std::int32_t> plain_merges(const Tokenizer& tokenizer, std::string_view word) {
  std::vector<std::int32_t> tokens;
  for (const char c : word) tokens.push_back(*tokenizer.find(std::string(1, c)));
  while (true) {
    const auto& merges = tokenizer.parts().merges;
    std::size_t best = merges.size();
    std::size_t place = 0;
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
      for (std::size_t m = 0; m < best; ++m) {
        if (merges[m].left != tokens[i] || merges[m].right != tokens[i + 1]) continue;
        best = m;
        place = i;
      }
    }
    if (best == merges.size()) return tokens;
    tokens[place] = merges[best].merged;
    tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
}

TEST(Tokenizer, MergesAsDefined) {
  const Tokenizer tokenizer(small_parts(SplitPattern::kNone));
  Rng rng(7);
  const std::string letters = "the whalsid,";
  for (int i = 0; i < 300; ++i) {
    std::string word;
    const std::int64_t size = rng.integer(1, 60);
    while (std::ssize(word) < size) word += letters[static_cast<std::size_t>(rng.integer(0, 11))];
    EXPECT_EQ(tokenizer.encode(word), plain_merges(tokenizer, word)) << word;
  }
}

TEST(Tokenizer, AnyBytesDecodeToThemselves) {
  Rng rng(3);
  for (const auto pattern :
       {SplitPattern::kNone, SplitPattern::kGpt2, SplitPattern::kLlama3, SplitPattern::kQwen2}) {
    const Tokenizer tokenizer(small_parts(pattern));
    std::string bytes(5000, ' ');
    for (char& byte : bytes) byte = static_cast<char>(rng.integer(0, 255));
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(bytes)), bytes);
  }
}

TEST(Tokenizer, FilesReadBack) {
  const Tokenizer tokenizer(small_parts(SplitPattern::kQwen2));
  const std::string json = tokenizer_json(tokenizer.parts());
  const Tokenizer again = Tokenizer::parse(json, "t.json");
  EXPECT_EQ(again.fingerprint(), tokenizer.fingerprint());
  EXPECT_EQ(tokenizer_json(again.parts()), json);
  EXPECT_EQ(again.vocabulary(), tokenizer.vocabulary());
  EXPECT_NE(Tokenizer(small_parts()).fingerprint(), tokenizer.fingerprint());
}

TEST(Tokenizer, SpecialTokensOfATextCanBePlainText) {
  const Tokenizer tokenizer = Tokenizer::parse(small_json().dump(), "t.json");
  const std::int32_t end = tokenizer.find("<|endoftext|>").value();
  EXPECT_EQ(end, 0);
  EXPECT_TRUE(tokenizer.is_special(end));
  const auto found = tokenizer.encode("a<|endoftext|>");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[1], end);
  EXPECT_EQ(tokenizer.decode(found, true), "a");
  EXPECT_EQ(tokenizer.decode(found), "a<|endoftext|>");
  const auto plain = tokenizer.encode("a<|endoftext|>", {.find_added = false});
  EXPECT_EQ(std::count(plain.begin(), plain.end(), end), 0);
  EXPECT_EQ(tokenizer.decode(plain, true), "a<|endoftext|>");
}

TEST(Tokenizer, NumbersThatAreNoTokens) {
  const Tokenizer tokenizer(small_parts());
  for (const std::int32_t token : {-1, static_cast<std::int32_t>(tokenizer.vocabulary())}) {
    const std::vector<std::int32_t> tokens = {token};
    EXPECT_NE(message_of([&] {
                (void)tokenizer.decode(tokens);
              }).find("but got " + std::to_string(token)),
              std::string::npos);
  }
}

TEST(Tokenizer, PartsThatAreUnsupportedAreNamed) {
  const auto with = [](const char* pointer, const Json& value) {
    Json json = small_json();
    json[Json::json_pointer(pointer)] = value;
    return problem(json);
  };
  const auto expect = [](const std::string& message, const std::string& start) {
    EXPECT_EQ(message.find("[t.json] " + start), 0u) << message;
    EXPECT_NE(message.find("GPT-2, GPT-NeoX, Llama 3 and Qwen"), std::string::npos) << message;
  };
  expect(with("/normalizer", {{"type", "Lowercase"}}),
         R"(normalizer must be null or NFC but got {"type":"Lowercase"})");
  expect(with("/pre_tokenizer", {{"type", "Metaspace"}}), "pre_tokenizer must be ByteLevel");
  expect(with("/pre_tokenizer/add_prefix_space", true), "pre_tokenizer.add_prefix_space must be");
  expect(with("/model/type", "Unigram"), R"(model must be of the type BPE but got "Unigram")");
  expect(with("/model/byte_fallback", true), "model.byte_fallback must be null but got true");
  expect(with("/model/unk_token", "<unk>"), "model.unk_token must be null");
  expect(with("/model/dropout", 0.1), "model.dropout must be null");
  expect(with("/decoder", {{"type", "WordPiece"}}), "decoder must be ByteLevel");
  expect(with("/post_processor", {{"type", "BertProcessing"}}), "post_processor must be");
  expect(with("/added_tokens/0/lstrip", true), "added_tokens.lstrip must be false");
  expect(with("/truncation", {{"max_length", 512}}), "truncation must be null");
  const Json split = {{"type", "Split"},
                      {"pattern", {{"Regex", "\\w+"}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  expect(
      with("/pre_tokenizer", {{"type", "Sequence"},
                              {"pretokenizers", Json::array({split, {{"type", "ByteLevel"}}})}}),
      R"(pre_tokenizer.pattern must be the Regex of GPT-2, Llama 3 or Qwen 2 but got {"Regex":"\\w+"})");
}

TEST(Tokenizer, BrokenFilesAreNamed) {
  EXPECT_EQ(message_of([] { (void)Tokenizer::parse("{", "t.json"); }).find("[t.json] file must be"),
            0u);
  Json json = small_json();
  json["model"]["merges"].push_back({"q", "zz"});
  EXPECT_NE(problem(json).find("must name and make tokens of the vocabulary but got zz"),
            std::string::npos);
  json = small_json();
  json["model"]["vocab"].erase("!");
  EXPECT_NE(problem(json).find("must have a token for each byte but got none for byte 0x21"),
            std::string::npos);
  json = small_json();
  json["model"]["vocab"]["!"] = json["model"]["vocab"]["a"];
  EXPECT_NE(problem(json).find("must give each number to one token"), std::string::npos);
  json = small_json();
  json["model"]["vocab"]["!"] = 1e9;
  EXPECT_NE(problem(json).find("must be an integer in"), std::string::npos);
  json = small_json();
  json["added_tokens"][0]["id"] = 5;
  EXPECT_NE(problem(json).find("must have a unique number"), std::string::npos);
}

TEST(Tokenizer, TemplatesNameTokens) {
  Json json = small_json();
  const Json special = {{"<s>", {{"id", "<s>"}, {"ids", {5000}}, {"tokens", {"<s>"}}}}};
  json["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", Json::array({{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}},
                              {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}})},
      {"special_tokens", special}};
  EXPECT_NE(problem(json).find("must be tokens of the vocabulary but got 5000"), std::string::npos)
      << problem(json);
  json["post_processor"]["special_tokens"]["<s>"]["ids"] = {0};
  const Tokenizer tokenizer = Tokenizer::parse(json.dump(), "t.json");
  EXPECT_EQ(tokenizer.encode("", {.add_template = true}), std::vector<std::int32_t>{0});
}

TEST(Training, TiesGoToTheSmallerNumbers) {
  Trainer trainer({.vocabulary = 257 + 2, .least_count = 1});
  trainer.add("ba");
  trainer.add("ab");
  trainer.add("dc");
  const TokenizerParts parts = trainer.train();
  ASSERT_EQ(parts.merges.size(), 2u);
  const auto text = [&](std::size_t m) {
    return parts.vocabulary[static_cast<std::size_t>(parts.merges[m].merged)].bytes;
  };
  EXPECT_EQ(text(0), "ab");
  EXPECT_EQ(text(1), "ba");
}

TEST(Training, DependsOnTheTextAlone) {
  const auto train = [](bool backwards) {
    Trainer trainer({.vocabulary = 400});
    std::vector<std::string> documents;
    for (int i = 0; i < 200; ++i)
      documents.push_back("word" + std::to_string(i * i % 97) + " and so on");
    if (backwards) std::reverse(documents.begin(), documents.end());
    for (const std::string& document : documents) trainer.add(document);
    return Tokenizer(trainer.train()).fingerprint();
  };
  EXPECT_EQ(train(false), train(true));
}

TEST(Training, RarePairsAreNotMerged) {
  Trainer trainer({.vocabulary = 1000, .least_count = 2});
  trainer.add("ab ab xyz");
  const TokenizerParts parts = trainer.train();
  EXPECT_EQ(parts.merges.size(), 1u) << "ab, while ' ab' occurs once";
}

TEST(Training, AVocabularyWithoutRoom) {
  EXPECT_EQ(
      message_of([] { Trainer trainer({.vocabulary = 100}); }),
      "[tokenizer] vocab must be >= 257: 256 bytes and 1 special tokens but got 100; raise it; "
      "4096 to 50000 is usual");
}

}  // namespace
}  // namespace posenc::tokens
