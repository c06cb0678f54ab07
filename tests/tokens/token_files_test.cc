#include "tokens/token_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "core/value.h"
#include "posenc/core/rng.h"
#include "support/message_of.h"
#include "support/temporary_folder.h"
#include "tokens/token_writer.h"
#include "tokens/train.h"

namespace posenc::tokens {
namespace {

namespace fs = std::filesystem;
using testing::message_of;

class TokenFolder : public ::testing::Test {
 protected:
  TokenFolder() : tokenizer_(trained()) {
    Rng rng(1);
    for (int i = 0; i < 60; ++i) {
      std::string text;
      const std::int64_t words = rng.integer(1, 200);
      for (std::int64_t w = 0; w < words; ++w)
        text += "word" + std::to_string(rng.integer(0, 50)) + " ";
      documents_.push_back({"d" + std::to_string(i) + ".txt", text});
    }
  }
  static TokenizerParts trained() {
    Trainer trainer({.vocabulary = 300});
    for (int i = 0; i < 50; ++i)
      trainer.add("word" + std::to_string(i) + " word" + std::to_string(i));
    return trainer.train();
  }
  [[nodiscard]] std::string path(const std::string& name = "tokens") const {
    return folder_ / name;
  }
  TokenIndex write(TokenFileOptions options) const {
    options.folder = path();
    TokenWriter writer(tokenizer_, options);
    for (SourceDocument document : documents_) writer.add(document);
    return writer.finish();
  }
  void damage(const std::string& file, const std::string& bytes) const {
    std::ofstream(path("tokens/" + file), std::ios::binary) << bytes;
  }

  testing::TemporaryFolder folder_;
  Tokenizer tokenizer_;
  std::vector<SourceDocument> documents_;
};

TEST_F(TokenFolder, HoldsEveryDocumentOnce) {
  for (const std::int64_t shard : {std::int64_t{1} << 28, std::int64_t{97}}) {
    const TokenIndex index = write({.replace = shard == 97,
                                    .source = "a test",
                                    .licence = "CC0-1.0",
                                    .validation_share = 0.2,
                                    .test_share = 0.2,
                                    .shard_tokens = shard});
    const TokenFiles files(path());
    files.verify();
    EXPECT_EQ(files.index().licence, "CC0-1.0");
    EXPECT_EQ(index.documents(), 60);
    std::vector<std::string> texts;
    for (std::size_t split = 0; split < 3; ++split) {
      EXPECT_GT(index.splits[split].documents, 4);
      std::uint64_t begin = 0;
      for (const std::uint64_t end : files.document_ends(split)) {
        std::vector<std::int32_t> tokens(end - begin);
        files.copy(split, static_cast<std::int64_t>(begin), tokens);
        EXPECT_EQ(tokens.back(), index.end_of_document);
        tokens.pop_back();
        texts.push_back(tokenizer_.decode(tokens));
        begin = end;
      }
    }
    std::vector<std::string> expected;
    for (const SourceDocument& document : documents_) expected.push_back(document.text);
    std::sort(texts.begin(), texts.end());
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(texts, expected);
  }
}

TEST_F(TokenFolder, IsTheSameForAnyShardsInWhatIsRead) {
  write({.shard_tokens = 1 << 20});
  const TokenFiles one(path());
  fs::rename(path(), path("first"));
  write({.shard_tokens = 53});
  const TokenFiles many(path());
  EXPECT_GT(many.index().splits[0].shards.size(), 50u);
  const std::int64_t total = one.index().splits[0].tokens;
  ASSERT_EQ(many.index().splits[0].tokens, total);
  Rng rng(2);
  for (int i = 0; i < 300; ++i) {
    const std::int64_t begin = rng.integer(0, total - 200);
    std::vector<std::int32_t> a(static_cast<std::size_t>(rng.integer(1, 200)));
    std::vector<std::int32_t> b(a.size());
    one.copy(0, begin, a);
    many.copy(0, begin, b);
    ASSERT_EQ(a, b);
  }
}

TEST_F(TokenFolder, SplitsDependOnNamesAlone) {
  const TokenIndex all = write({.validation_share = 0.2, .test_share = 0.2});
  documents_.erase(documents_.begin(), documents_.begin() + 30);
  fs::rename(path(), path("first"));
  const TokenIndex half = write({.validation_share = 0.2, .test_share = 0.2});
  for (std::size_t split = 0; split < 3; ++split) {
    EXPECT_LE(half.splits[split].documents, all.splits[split].documents);
  }
  EXPECT_EQ(half.documents(), 30);
}

TEST_F(TokenFolder, OfOneDocumentTheEndIsHeldOut) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "line " + std::to_string(i) + "\n";
  documents_ = {{"one.txt", text}};
  const TokenIndex index = write({.validation_share = 0.1, .test_share = 0.2});
  const TokenFiles files(path());
  std::string all;
  for (std::size_t split = 0; split < 3; ++split) {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(index.splits[split].tokens) - 1);
    files.copy(split, 0, tokens);
    const std::string part = tokenizer_.decode(tokens);
    EXPECT_EQ(part.back(), '\n') << "cut at a line end";
    all += part;
  }
  EXPECT_EQ(all, text);
  EXPECT_NEAR(static_cast<double>(index.splits[2].bytes) / static_cast<double>(text.size()), 0.2,
              0.01);
}

TEST_F(TokenFolder, DamageIsNamed) {
  write({.validation_share = 0.2, .test_share = 0.2});
  const std::string shard = read_file(path("tokens/train-00000.bin"));
  damage("train-00000.bin", shard.substr(0, shard.size() - 2));
  const std::string sized = message_of([&] { TokenFiles files(path()); });
  EXPECT_NE(sized.find("train-00000.bin] must have " + std::to_string(shard.size())),
            std::string::npos)
      << sized;
  std::string flipped = shard;
  flipped[40] = static_cast<char>(flipped[40] ^ 1);
  damage("train-00000.bin", flipped);
  const std::string hashed = message_of([&] { TokenFiles(path()).verify(); });
  EXPECT_NE(hashed.find("train-00000.bin] has the wrong checksum"), std::string::npos) << hashed;
  flipped[41] = static_cast<char>(0xFF);
  damage("train-00000.bin", flipped);
  std::vector<std::int32_t> tokens(64);
  const std::string large = message_of([&] { TokenFiles(path()).copy(0, 0, tokens); });
  EXPECT_NE(large.find("must hold numbers below its vocabulary 300"), std::string::npos) << large;
  const std::string borders = read_file(path("tokens/train.documents"));
  damage("train.documents", borders.substr(8) + borders.substr(0, 8));
  const std::string fallen = message_of([&] { (void)TokenFiles(path()).document_ends(0); });
  EXPECT_NE(fallen.find("train.documents] must rise"), std::string::npos) << fallen;
  fs::remove(path("tokens/train-00000.bin"));
  EXPECT_NE(message_of([&] { TokenFiles files(path()); }).find("train-00000.bin"),
            std::string::npos);
  damage("index.json", "{}");
  EXPECT_NE(message_of([&] { TokenFiles files(path()); }).find("format is required"),
            std::string::npos);
}

TEST_F(TokenFolder, AnIndexReadsItsOwnFolderAlone) {
  write({});
  std::string json = read_file(path("tokens/index.json"));
  json.replace(json.find("train-00000.bin"), 15, "../secret/a.bin");
  damage("index.json", json);
  EXPECT_NE(
      message_of([&] { TokenFiles files(path()); }).find("must be the name of a file next to"),
      std::string::npos);
}

TEST_F(TokenFolder, NothingIsLeftOfWhatWasNotFinished) {
  {
    TokenWriter writer(tokenizer_, {.folder = path()});
    for (SourceDocument document : documents_) writer.add(document);
  }
  EXPECT_TRUE(fs::is_empty(folder_ / "."));
  write({});
  const std::string before = read_file(path("tokens/index.json"));
  EXPECT_NE(message_of([&] { write({}); }).find("folder must be new"), std::string::npos);
  {
    TokenWriter writer(tokenizer_, {.folder = path(), .replace = true, .source = "other"});
    for (SourceDocument document : documents_) writer.add(document);
  }
  EXPECT_EQ(read_file(path("tokens/index.json")), before);
  write({.replace = true, .source = "other"});
  EXPECT_NE(read_file(path("tokens/index.json")), before);
}

TEST_F(TokenFolder, FoldersOfOthersAreNotReplaced) {
  fs::create_directory(path());
  std::ofstream(path("tokens/letter.txt")) << "dear";
  EXPECT_NE(message_of([&] { write({.replace = true}); }).find("must hold token files"),
            std::string::npos);
  EXPECT_TRUE(fs::exists(path("tokens/letter.txt")));
}

TEST(Sources, FilesFoldersAndLines) {
  const testing::TemporaryFolder folder;
  fs::create_directory(folder / "sub");
  std::ofstream(folder / "sub/b.txt") << "plain";
  std::ofstream(folder / "a.jsonl") << R"({"text": "one\n", "id": 1})"
                                    << "\n\n"
                                    << R"({"text": ""})"
                                    << "\n"
                                    << R"({"text": "é"})";
  std::ofstream(folder / "empty.txt");
  std::vector<std::string> seen;
  const SourceOptions options{.paths = {folder.path()}};
  for_each_document(options, [&](SourceDocument& d) { seen.push_back(d.name + "=" + d.text); });
  EXPECT_EQ(seen, (std::vector<std::string>{"a.jsonl:1=one\n", "a.jsonl:4=é", "sub/b.txt=plain"}));
  const auto problem = [&](const SourceOptions& with) {
    return message_of([&] { for_each_document(with, [](SourceDocument&) {}); });
  };
  EXPECT_NE(problem({.paths = {folder.path()}, .field = "body"})
                .find("a.jsonl:1] must have the field 'body' with text"),
            std::string::npos);
  EXPECT_NE(problem({.paths = {folder.path()}, .suffixes = {".md"}}).find("has no files to read"),
            std::string::npos);
  EXPECT_NE(problem({.paths = {folder.path() + "/none"}}).find("No such file"), std::string::npos);
  std::ofstream(folder / "a.jsonl") << "{\n";
  EXPECT_NE(problem(options).find("a.jsonl:1] must be a JSON object"), std::string::npos);
}

}  // namespace
}  // namespace posenc::tokens
