#include "tasks/token_task.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "posenc/core/rng.h"
#include "support/message_of.h"
#include "support/temporary_folder.h"
#include "tasks/permutation.h"
#include "tasks/samples.h"
#include "tokens/token_files.h"
#include "tokens/token_writer.h"
#include "tokens/train.h"

namespace posenc::tasks {
namespace {

using testing::message_of;

TEST(Permutation, IsOneForAnySize) {
  for (const std::uint64_t size : {1u, 2u, 3u, 17u, 64u, 1000u}) {
    std::set<std::uint64_t> seen;
    std::uint64_t fixed = 0;
    for (std::uint64_t i = 0; i < size; ++i) {
      const std::uint64_t at = permuted(i, size, 5);
      EXPECT_LT(at, size);
      seen.insert(at);
      fixed += at == i ? 1 : 0;
    }
    EXPECT_EQ(seen.size(), size);
    EXPECT_LT(fixed, size < 1000 ? size + 1 : 20u);
  }
}

// A hundred documents of numbers, of which each third is held out or not.
class TokenRows : public ::testing::Test {
 protected:
  TokenRows() {
    tokens::Trainer trainer({.vocabulary = 400});
    for (int i = 0; i < 300; ++i) trainer.add(" " + std::to_string(i));
    const tokens::Tokenizer tokenizer(trainer.train());
    tokens::TokenWriter writer(
        tokenizer,
        {.folder = path(), .validation_share = 0.3, .test_share = 0.3, .shard_tokens = 777});
    Rng rng(4);
    for (int i = 0; i < 100; ++i) {
      tokens::SourceDocument document{"d" + std::to_string(i), ""};
      const std::int64_t words = rng.integer(5, 160);
      for (std::int64_t w = 0; w < words; ++w)
        document.text += " " + std::to_string(rng.integer(0, 299));
      writer.add(document);
    }
    index_ = writer.finish();
  }
  [[nodiscard]] std::string path() const { return folder_ / "tokens"; }
  [[nodiscard]] LanguageModel config(Packing packing = Packing::kMasked) const {
    return {.files = {.longest_context = 64}, .scored = 8, .tokens = path(), .packing = packing};
  }
  [[nodiscard]] std::vector<std::int32_t> stream(std::size_t split) const {
    const tokens::TokenFiles files(path());
    std::vector<std::int32_t> all(static_cast<std::size_t>(index_.splits[split].tokens));
    files.copy(split, 0, all);
    return all;
  }

  testing::TemporaryFolder folder_;
  tokens::TokenIndex index_;
};

std::span<const std::int32_t> row_tokens(const Batch& batch, std::int64_t row) {
  return std::span(batch.tokens)
      .subspan(static_cast<std::size_t>(row * batch.length),
               static_cast<std::size_t>(batch.length));
}

TEST_F(TokenRows, AnEpochHasEveryBlockOnce) {
  const auto task = make_task(config());
  const std::vector<std::int32_t> all = stream(0);
  const auto blocks = static_cast<std::int64_t>((all.size() - 1) / 16 - 1);
  std::vector<std::set<std::ptrdiff_t>> starts(2);
  for (std::size_t epoch = 0; epoch < 2; ++epoch) {
    const Batch batch =
        make_batch(*task, {"train", 16}, 3, epoch * static_cast<std::uint64_t>(blocks), blocks);
    for (std::int64_t row = 0; row < blocks; ++row) {
      const auto tokens = row_tokens(batch, row);
      const auto found = std::search(all.begin(), all.end(), tokens.begin(), tokens.end());
      ASSERT_NE(found, all.end());
      starts[epoch].insert(found - all.begin());
    }
    ASSERT_EQ(starts[epoch].size(), static_cast<std::size_t>(blocks));
    EXPECT_EQ(*starts[epoch].rbegin() - *starts[epoch].begin(), (blocks - 1) * 16)
        << "side by side";
  }
  EXPECT_NE(starts[0], starts[1]) << "the next epoch begins its blocks elsewhere";
}

TEST_F(TokenRows, RowsDependOnSeedAndNumberAlone) {
  const auto task = make_task(config());
  const Batch whole = make_batch(*task, {"train", 32}, 7, 0, 24);
  for (const std::int64_t ranks : {2, 4}) {  // each with its part of the global batch
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const std::int64_t rows = 24 / ranks;
      const Batch part =
          make_batch(*task, {"train", 32}, 7, static_cast<std::uint64_t>(rank * rows), rows);
      const auto from = whole.tokens.begin() + rank * rows * 32;
      EXPECT_TRUE(std::equal(part.tokens.begin(), part.tokens.end(), from));
    }
  }
  EXPECT_NE(make_batch(*task, {"train", 32}, 8, 0, 24).tokens, whole.tokens);
}

TEST_F(TokenRows, TargetsAreTheNextTokensOfTheSameDocument) {
  const std::int32_t end = static_cast<std::int32_t>(index_.end_of_document);
  for (const Packing packing : {Packing::kMasked, Packing::kOpen}) {
    const auto task = make_task(config(packing));
    EXPECT_EQ(task->info().separator, packing == Packing::kMasked ? end : -1);
    EXPECT_EQ(task->info().vocabulary, index_.vocabulary);
    EXPECT_EQ(task->info().metric, Metric::kBitsPerToken);
    for (const Split split : {Split::kTrain, Split::kTest}) {
      const Batch batch = make_batch(*task, {"train", 40, 40, split}, 1, 0, 20);
      int borders = 0;
      for (std::int64_t row = 0; row < batch.rows; ++row) {
        for (std::int64_t t = 0; t + 1 < batch.length; ++t) {
          const std::int32_t next = batch.tokens[place(batch, row, t + 1)];
          const bool border = batch.tokens[place(batch, row, t)] == end;
          borders += border ? 1 : 0;
          const bool unscored = border && packing == Packing::kMasked;
          EXPECT_EQ(batch.targets[place(batch, row, t)], unscored ? kUnscored : next);
        }
      }
      EXPECT_GT(borders, 0);
    }
  }
}

TEST_F(TokenRows, HeldOutBlocksSayEveryTokenOnce) {
  const auto task = make_task(config(Packing::kOpen));
  const Condition condition{"train", 24, 24, Split::kTest};
  const std::vector<std::int32_t> all = stream(2);
  const std::int64_t rows = task->rows(condition).value();
  EXPECT_EQ(rows, static_cast<std::int64_t>((all.size() - 1) / 24));
  const Batch batch = make_batch(*task, condition, 1, 0, rows);
  std::vector<std::vector<std::int32_t>> got;
  std::vector<std::vector<std::int32_t>> want;
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto tokens = row_tokens(batch, row);
    got.emplace_back(tokens.begin(), tokens.end());
    want.emplace_back(all.begin() + row * 24, all.begin() + (row + 1) * 24);
  }
  std::sort(got.begin(), got.end());
  std::sort(want.begin(), want.end());
  EXPECT_EQ(got, want);
}

TEST_F(TokenRows, LongerRowsStayWithinADocumentAndSayTheSame) {
  const auto task = make_task(config());
  const auto condition = [](std::int64_t length) {
    return Condition{"longer", length, 16, Split::kTest};
  };
  const std::int64_t rows = task->rows(condition(16)).value();
  ASSERT_GT(rows, 5);
  const Batch first = make_batch(*task, condition(16), 1, 0, rows);
  for (const std::int64_t length : {32, 64}) {
    ASSERT_EQ(task->rows(condition(length)), rows);
    const Batch batch = make_batch(*task, condition(length), 1, 0, rows);
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto tokens = row_tokens(batch, row);
      EXPECT_EQ(std::count(tokens.begin(), tokens.end(), index_.end_of_document), 0);
      for (std::int64_t t = 0; t < length; ++t) {
        const std::int32_t target = batch.targets[place(batch, row, t)];
        if (t < length - 8) {
          EXPECT_EQ(target, kUnscored);
        } else {
          EXPECT_EQ(target, first.targets[place(first, row, t - length + 16)]);
        }
      }
      EXPECT_LT(task->cluster(condition(length), static_cast<std::uint64_t>(row)).value(),
                static_cast<std::uint32_t>(index_.splits[2].documents));
    }
  }
  EXPECT_NE(message_of([&] { (void)task->rows(condition(65)); }).find("<= 64 (longest_context)"),
            std::string::npos);
}

std::int64_t peak_mebibytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

// 64 GiB of training tokens in a file with holes: no disk has to hold them, and no memory.
TEST_F(TokenRows, AFileLargerThanMemoryIsNotRead) {
  const std::int64_t tokens = std::int64_t{1} << 35;
  tokens::TokenSplit& split = index_.splits[0];
  ASSERT_EQ(index_.token_bytes, 2);
  split.tokens = tokens;
  split.documents = 1;
  split.shards = {{"train-00000.bin", tokens, split.shards[0].sha256}};
  split.borders.tokens = 1;
  std::ofstream(path() + "/index.json") << token_index_json(index_);
  std::ofstream(path() + "/train.documents", std::ios::binary)
      .write(reinterpret_cast<const char*>(&tokens), sizeof(tokens));
  const std::vector<std::uint16_t> last = {7, 8, 9};
  const auto bytes = static_cast<std::int64_t>(last.size() * sizeof(last[0]));
  std::ofstream shard(path() + "/train-00000.bin", std::ios::binary);
  shard.seekp(2 * tokens - bytes);
  shard.write(reinterpret_cast<const char*>(last.data()), bytes);
  shard.close();

  const std::int64_t before = peak_mebibytes();
  const auto task = make_task(config());
  const Batch batch = make_batch(*task, {"train", 1024}, 3, std::uint64_t{1} << 24, 512);
  EXPECT_EQ(std::count(batch.tokens.begin(), batch.tokens.end(), 0),
            static_cast<std::ptrdiff_t>(batch.tokens.size()));
  std::vector<std::int32_t> end(4);
  const tokens::TokenFiles files(path());
  files.copy(0, tokens - 4, end);
  EXPECT_EQ(end, (std::vector<std::int32_t>{0, 7, 8, 9}));
  EXPECT_EQ(files.document_ends(0).back(), static_cast<std::uint64_t>(tokens));
  EXPECT_LT(peak_mebibytes() - before, 200);
}

TEST_F(TokenRows, WhatIsWrongIsSaidBeforeTraining) {
  const auto problem = [&](const LanguageModel& with) {
    return message_of([&] { (void)make_task(with); });
  };
  LanguageModel both = config();
  both.files.path = "x.txt";
  EXPECT_EQ(problem(both).find("[language_model] path is not read with tokens but got 'x.txt'"), 0u)
      << problem(both);
  LanguageModel share = config();
  share.files.test_share = 0.5;
  EXPECT_NE(problem(share).find("test_share is not read with tokens"), std::string::npos);
  EXPECT_NE(problem({.files = {.path = "x.txt"}, .packing = Packing::kOpen})
                .find("packing needs tokens but got open"),
            std::string::npos);
  LanguageModel nowhere = config();
  nowhere.tokens = path() + "-none";
  EXPECT_NE(problem(nowhere).find("index.json"), std::string::npos);
  const auto task = make_task(config());
  EXPECT_NE(message_of([&] {
              make_batch(*task, {"train", 100000}, 1, 0, 1);
            }).find("tokens of the training split but got 100000"),
            std::string::npos);
  tokens::Trainer other({.vocabulary = 400});
  other.add("another text another text");
  std::ofstream(path() + "/tokenizer.json") << tokenizer_json(other.train());
  EXPECT_NE(problem(config()).find("must have the tokenizer that wrote them"), std::string::npos);
}

TEST_F(TokenRows, TokensReadAsText) {
  const auto task = make_task(config());
  EXPECT_EQ(task->token_text(static_cast<std::int32_t>(index_.end_of_document)), "<|endoftext|>");
  const tokens::Tokenizer tokenizer = tokens::Tokenizer::read(path());
  EXPECT_EQ(task->token_text(tokenizer.find(" ").value()), "\\s");
  EXPECT_EQ(task->token_text(tokenizer.find("\xC3").value()), "\\xc3");
  EXPECT_NE(task->data_summary().find("bytes per token; vocabulary of 286"), std::string::npos);
  EXPECT_EQ(task->content_hash(), tokens::TokenFiles(path()).sha256());
}

}  // namespace
}  // namespace posenc::tasks
