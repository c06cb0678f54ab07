// Against Hugging Face's tokenizers: tests/golden/tokenizers, recorded by tools/record_tokenizers.mjs.
#include "support/golden.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/value.h"
#include "support/paths.h"
#include "tokens/byte_level.h"
#include "tokens/tokenizer.h"
#include "tokens/train.h"
#include "tokens/unicode.h"

namespace posenc::tokens {
namespace {

std::string golden_path(const std::string& name) {
  return std::string(posenc::testing::kTestData) + "/golden/tokenizers/" + name;
}

class Golden : public ::testing::TestWithParam<const char*> {
 protected:
  Golden()
      : tokenizer_(Tokenizer::read(golden_path(std::string(GetParam()) + ".json"))),
        record_(testing::load_golden("tokenizers/encodings.json")) {}

  [[nodiscard]] std::vector<std::string> texts() const {
    return record_["texts"].get<std::vector<std::string>>();
  }
  [[nodiscard]] const testing::Json& recorded(const char* key) const {
    return record_["tokenizers"][GetParam()][key];
  }

  Tokenizer tokenizer_;
  testing::Json record_;
};

TEST_P(Golden, EncodesAsRecorded) {
  const std::vector<std::string> all = texts();
  ASSERT_GT(all.size(), 200u);
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(tokenizer_.encode(all[i]), recorded("ids")[i].get<std::vector<std::int32_t>>())
        << all[i];
    EXPECT_EQ(tokenizer_.encode(all[i], {.add_template = true}).size(),
              recorded("templated")[i].get<std::size_t>());
  }
}

TEST_P(Golden, AnEncoderWithMemoryEncodesTheSame) {
  Encoder encoder(tokenizer_);
  std::vector<std::int32_t> together;
  std::vector<std::int32_t> expected;
  for (int round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i < texts().size(); ++i) {
      encoder.append(texts()[i], together);
      const auto ids = recorded("ids")[i].get<std::vector<std::int32_t>>();
      expected.insert(expected.end(), ids.begin(), ids.end());
    }
  }
  EXPECT_EQ(together, expected);
}

TEST_P(Golden, DecodesAsRecorded) {
  const std::vector<std::string> all = texts();
  const std::int32_t accent = tokenizer_.find("é!").value_or(-1);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto ids = recorded("ids")[i].get<std::vector<std::int32_t>>();
    // Hugging Face decodes the é of an added token as the byte 0xE9, which is no text.
    if (std::find(ids.begin(), ids.end(), accent) != ids.end()) continue;
    EXPECT_EQ(tokenizer_.decode(ids, true), recorded("decoded")[i].get<std::string>()) << all[i];
  }
}

TEST_P(Golden, DecodesToTheText) {
  for (const std::string& text : texts()) {
    const std::string expected = tokenizer_.parts().nfc ? to_nfc(text) : text;
    EXPECT_EQ(tokenizer_.decode(tokenizer_.encode(text)), expected);
    EXPECT_EQ(tokenizer_.decode(tokenizer_.encode(text, {.find_added = false})), expected);
  }
}

// Hugging Face's trainer reads its files line by line.
TEST_P(Golden, TrainsTheMergesOfHuggingFace) {
  const TokenizerParts& theirs = tokenizer_.parts();
  Trainer trainer({.vocabulary = 2000, .least_count = 1, .pattern = theirs.pattern, .special = {}});
  const std::string sample = read_file(golden_path("sample.txt"));
  for (std::size_t at = 0; at < sample.size();) {
    const std::size_t end = std::min(sample.find('\n', at), sample.size() - 1) + 1;
    trainer.add(std::string_view(sample).substr(at, end - at));
    at = end;
  }
  const TokenizerParts ours = trainer.train();
  const auto bytes = [](const TokenizerParts& parts, std::int32_t id) {
    return to_byte_level(parts.vocabulary[static_cast<std::size_t>(id)].bytes);
  };
  ASSERT_EQ(theirs.merges.size(), 320u);
  for (std::size_t i = 0; i < theirs.merges.size(); ++i) {
    EXPECT_EQ(bytes(ours, ours.merges[i].left), bytes(theirs, theirs.merges[i].left)) << i;
    EXPECT_EQ(bytes(ours, ours.merges[i].right), bytes(theirs, theirs.merges[i].right)) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, Golden, ::testing::Values("gpt2", "llama3", "qwen2"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace posenc::tokens
