// posenc data tokenizer, tokens, dedup and what training makes of their files.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "cli/run_cli.h"
#include "posenc/core/rng.h"
#include "support/temporary_folder.h"

namespace posenc::testing {
namespace {

namespace fs = std::filesystem;

std::string sentences(int count, std::uint64_t seed) {
  Rng rng(seed);
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += "the whale number " + std::to_string(rng.integer(0, 999)) + " swam " +
            std::to_string(rng.integer(0, 99)) + " miles\n";
  }
  return text;
}

class DataTokens : public ::testing::Test {
 protected:
  DataTokens() {
    fs::create_directory(folder_ / "texts");
    for (int i = 0; i < 40; ++i) {
      write_content(folder_ / ("texts/" + std::to_string(i) + ".txt"),
                    sentences(30, static_cast<std::uint64_t>(i)));
    }
  }
  [[nodiscard]] std::string at(const std::string& name) const { return folder_ / name; }
  void make_tokens() const {
    const Result trained =
        run("data tokenizer train " + at("texts") + " --vocab 400 -o " + at("t.json"));
    ASSERT_EQ(trained.code, 0) << trained.out;
    EXPECT_NE(trained.out.find("400 tokens, 143 merges, from 40 documents"), std::string::npos)
        << trained.out;
    const Result written =
        run("data tokens " + at("texts") + " --tokenizer " + at("t.json") + " -o " + at("tokens") +
            " --licence CC0-1.0 --test-share 0.2 --validation-share 0.2");
    ASSERT_EQ(written.code, 0) << written.out;
  }

  TemporaryFolder folder_;
};

TEST_F(DataTokens, FromTextToATrainedModel) {
  POSENC_NEEDS_LIBTORCH();
  make_tokens();
  const Result shown = run("data " + at("tokens") + " --verify");
  EXPECT_EQ(shown.code, 0) << shown.out;
  for (const char* part : {"of 40 documents", "licence     CC0-1.0", "all files verified", "train",
                           "validation", "test", "vocabulary  400"}) {
    EXPECT_NE(shown.out.find(part), std::string::npos) << part << shown.out;
  }
  const std::string here = "POSENC_DATA=" + folder_.path() + " ";
  const Result list = run("data", here);
  EXPECT_NE(list.out.find("tokens"), std::string::npos) << list.out;
  EXPECT_NE(list.out.find("CC0-1.0"), std::string::npos) << list.out;
  write_content(at("c.yaml"), "task: {language_model: {tokens: " + at("tokens") +
                                  ", longest_context: 64}}\n" +
                                  "model: {dim: 16, heads: 2, layers: 1, encoding: rope}\n"
                                  "train: {length: 32, batch: 4, steps: 3}\n"
                                  "eval: {lengths: [32], samples: 8}\n");
  const Result sample = run("sample " + at("c.yaml") + " --length 16");
  EXPECT_EQ(sample.code, 0) << sample.out;
  const Result trained = run("train " + at("c.yaml") + " --out " + at("run"));
  ASSERT_EQ(trained.code, 0) << trained.out;
  EXPECT_NE(trained.out.find("bits per token"), std::string::npos) << trained.out;
  EXPECT_NE(trained.out.find("bytes per token"), std::string::npos) << trained.out;
}

TEST_F(DataTokens, MistakesAreOneLineBeforeAnything) {
  POSENC_NEEDS_LIBTORCH();
  make_tokens();
  write_content(at("unigram.json"), R"({"model": {"type": "Unigram"}, "pre_tokenizer": null})");
  fs::copy(at("tokens"), at("short"));
  fs::resize_file(at("short") + "/train-00000.bin", 100);
  const auto config = [&](const std::string& name) {
    write_content(at(name + ".yaml"), "task: {language_model: {tokens: " + at(name) + "}}\n");
    return "train " + at(name + ".yaml") + " --out " + at("run");
  };
  for (const auto& [arguments, part] : std::vector<std::pair<std::string, std::string>>{
           {"data tokens " + at("texts") + " --tokenizer " + at("unigram.json") + " -o " + at("x"),
            "pre_tokenizer must be ByteLevel"},
           {"data tokens " + at("texts") + " --tokenizer " + at("none.json") + " -o " + at("x"),
            "none.json"},
           {"data tokens " + at("nothing") + " --tokenizer " + at("t.json") + " -o " + at("x"),
            "must be a file, a folder or a corpus"},
           {"data tokens " + at("texts") + " --tokenizer " + at("t.json") + " -o " + at("tokens"),
            "folder must be new"},
           {"data tokens " + at("texts") + " --tokenizer " + at("t.json") + " --end '<eos>' -o " +
                at("x"),
            "end must be a token of the tokenizer but got <eos>"},
           {"data tokenizer train " + at("texts") + " --vocab 100 -o " + at("y.json"),
            "vocab must be >= 257"},
           {"data tokenizer train " + at("texts/1.txt") + " -o " + at("texts/1.txt"),
            "--output must not be a file that it is trained on"},
           {"data dedup " + at("texts") + " --threshold 0 -o " + at("x"), "threshold must be in"},
           {"data " + at("texts") + " --verify", "must name a folder of token files"},
           {config("short"), "train-00000.bin] must have"},
           {config("nowhere"), "nowhere/index.json"}}) {
    const Result result = run(arguments);
    EXPECT_EQ(result.code, 2) << result.out;
    EXPECT_NE(result.out.find(part), std::string::npos) << part << "\n" << result.out;
    EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 1) << result.out;
    EXPECT_FALSE(fs::exists(at("x")));
  }
}

TEST_F(DataTokens, NearDuplicatesAreRemoved) {
  write_content(at("texts/copy.txt"), "A new title\n" + sentences(30, 7));
  const Result removed =
      run("data dedup " + at("texts") + " -o " + at("clean") + " --report " + at("removed.jsonl"));
  EXPECT_EQ(removed.code, 0) << removed.out;
  EXPECT_NE(removed.out.find("40 documents"), std::string::npos) << removed.out;
  EXPECT_NE(removed.out.find("1 near-duplicates"), std::string::npos) << removed.out;
  EXPECT_NE(removed.out.find("copy.txt resembles 7.txt"), std::string::npos) << removed.out;
  EXPECT_TRUE(fs::exists(at("clean/7.txt")));
  EXPECT_FALSE(fs::exists(at("clean/copy.txt")));
  EXPECT_EQ(file_content(at("clean/3.txt")), sentences(30, 3));
  EXPECT_NE(file_content(at("removed.jsonl")).find(R"("removed":"copy.txt")"), std::string::npos)
      << file_content(at("removed.jsonl"));
  const std::string line =
      R"({"body": "the same words, again and again, and the same words", "id": 7})";
  write_content(at("lines.jsonl"), line + "\n{\"body\": \"other words\"}\n" + line + "\n");
  const Result lines = run("data dedup " + at("lines.jsonl") + " --field body -o " + at("lines"));
  EXPECT_EQ(lines.code, 0) << lines.out;
  const std::string kept = file_content(at("lines/lines.jsonl"));
  EXPECT_EQ(kept, line + "\n{\"body\": \"other words\"}\n");
}

TEST_F(DataTokens, AnEmptyCorpusHasNoTokenizer) {
  write_content(at("empty.txt"), "");
  const Result result =
      run("data tokenizer train " + at("empty.txt") + " --vocab 300 -o " + at("t.json"));
  EXPECT_EQ(result.code, 2) << result.out;
  EXPECT_NE(result.out.find("corpus has no documents; name files with text"), std::string::npos)
      << result.out;
  EXPECT_FALSE(fs::exists(at("t.json")));
}

TEST_F(DataTokens, FoldersWithoutCorporaAreSaidToBeThat) {
  const auto says = [](const std::string& path) {
    const Result result = run("data " + path);
    EXPECT_EQ(result.code, 2) << result.out;
    return result.out;
  };
  EXPECT_NE(says(at("texts")).find("texts holds no corpus and no token files"), std::string::npos);
  EXPECT_NE(says(at("absent")).find("absent does not exist"), std::string::npos);
  EXPECT_NE(says(at("texts/0.txt")).find("0.txt is not a folder"), std::string::npos);
  EXPECT_NE(says("mobi").find("did you mean 'moby'?"), std::string::npos);
}

// A kill leaves nothing at the folder's place, and the next command removes what it left.
TEST_F(DataTokens, AKilledCommandLeavesNothing) {
  make_tokens();
  std::string large;
  for (std::uint64_t i = 0; i < 60; ++i) large += sentences(10000, i);
  write_content(at("texts/large.txt"), large);
  const std::string command =
      "data tokens " + at("texts") + " --tokenizer " + at("t.json") + " -o " + at("killed");
  // On a fast machine it may have finished: then the second one replaces it.
  const bool finished = run(command, "timeout -s KILL 0.2 ").code == 0;
  EXPECT_EQ(fs::exists(at("killed")), finished);
  const Result again = run(command + (finished ? " --force" : ""));
  EXPECT_EQ(again.code, 0) << again.out;
  EXPECT_EQ(run("data " + at("killed") + " --verify").code, 0);
  for (const std::string& name : folder_.files()) {
    EXPECT_EQ(name.find(".tmp-"), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace posenc::testing
