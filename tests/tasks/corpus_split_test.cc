// Which documents are trained on, which choose a model and which judge it.
#include "tasks/corpus_split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "posenc/core/error.h"
#include "tasks/corpus.h"
#include "tasks/samples.h"
#include "tasks/text_files.h"

namespace posenc::tasks {
namespace {

constexpr std::array kSplits = {Split::kTrain, Split::kValidation, Split::kTest};
using Names = std::set<std::string>;

std::map<Split, Names> sides(const CorpusFiles& files) {
  const Corpus corpus(files, "test");
  std::map<Split, Names> found;
  for (const Split split : kSplits) {
    for (const Document& document : corpus.documents(split)) found[split].insert(document.name);
  }
  return found;
}

TEST(CorpusSplit, HoldsOutWholeFilesByShareAndOnlyLongOnes) {
  const TextFiles folder;
  for (std::size_t i = 0; i < 40; ++i) {
    folder.write("f" + std::to_string(i), noise(i % 2 == 0 ? 101 : 50, i));
  }
  const CorpusFiles files{
      .path = folder.path(), .test_share = 0.2, .validation_share = 0.1, .longest_context = 100};
  auto split = sides(files);
  EXPECT_EQ(split[Split::kTest].size(), 6u);        // 604 bytes of 3020 are the fifth of them
  EXPECT_EQ(split[Split::kValidation].size(), 3u);  // 302
  EXPECT_EQ(split[Split::kTrain].size(), 31u);
  for (const Split held_out : {Split::kValidation, Split::kTest}) {
    for (const std::string& name : split[held_out]) {
      EXPECT_EQ(std::stoi(name.substr(1)) % 2, 0) << name;
    }
  }
  folder.write("f41", noise(10, 41));  // moves no file to another side
  EXPECT_EQ(sides(files)[Split::kTest], split[Split::kTest]);
  EXPECT_EQ(sides(files)[Split::kValidation], split[Split::kValidation]);
}

TEST(CorpusSplit, ADocumentOfExactlyTheContextIsTooShort) {
  const TextFiles folder;
  for (std::size_t i = 0; i < 10; ++i) folder.write("f" + std::to_string(i), noise(100, i));
  CorpusFiles files{.path = folder.path(), .longest_context = 100};
  EXPECT_TRUE(sides(files)[Split::kTest].empty());
  files.longest_context = 99;
  EXPECT_EQ(sides(files)[Split::kTest].size(), 1u);
}

TEST(CorpusSplit, FilesOfAFolderStayTogether) {
  const TextFiles folder;
  for (std::size_t i = 0; i < 60; ++i) {
    folder.write("d" + std::to_string(i % 12) + "/f" + std::to_string(i), noise(200, i));
  }
  const auto split = sides(
      {.path = folder.path(), .test_share = 0.2, .validation_share = 0.2, .longest_context = 100});
  std::map<std::string, std::set<Split>> of_folder;
  for (const auto& [side, names] : split) {
    EXPECT_GE(names.size(), 15u);
    for (const std::string& name : names) of_folder[name.substr(0, name.find('/'))].insert(side);
  }
  EXPECT_EQ(of_folder.size(), 12u);
  for (const auto& [name, found] : of_folder) EXPECT_EQ(found.size(), 1u) << name;
}

TEST(CorpusSplit, AFolderWithMostOfTheTextIsSplitByFile) {
  const TextFiles folder;
  for (std::size_t i = 0; i < 20; ++i) folder.write("all/f" + std::to_string(i), noise(200, i));
  auto split = sides({.path = folder.path(), .longest_context = 100});
  EXPECT_EQ(split[Split::kTest].size(), 2u);
  EXPECT_EQ(split[Split::kValidation].size(), 1u);
  EXPECT_EQ(split[Split::kTrain].size(), 17u);
}

// Short files of a held-out folder are like the others in it: they are not trained on.
TEST(CorpusSplit, ShortFilesOfAHeldOutFolderAreLeftOut) {
  const TextFiles folder;
  for (std::size_t i = 0; i < 10; ++i) {
    folder.write("d" + std::to_string(i) + "/long", noise(200, i));
    folder.write("d" + std::to_string(i) + "/short", noise(100, 100 + i));
  }
  auto split = sides({.path = folder.path(), .validation_share = 0.0, .longest_context = 100});
  ASSERT_EQ(split[Split::kTest].size(), 2u);
  for (const std::string& name : split[Split::kTest]) {
    EXPECT_TRUE(name.ends_with("/long"));
    EXPECT_EQ(split[Split::kTrain].count(name.substr(0, 3) + "short"), 0u);
  }
  EXPECT_EQ(split[Split::kTrain].size(), 16u);
}

TEST(CorpusSplit, KeepsADocumentToTrainOn) {
  const TextFiles folder;
  folder.write("a", noise(200, 1));
  folder.write("b", noise(200, 2));
  const CorpusFiles files{.path = folder.path(), .test_share = 0.9, .longest_context = 100};
  auto split = sides(files);
  EXPECT_EQ(split[Split::kTrain].size(), 1u);
  EXPECT_EQ(split[Split::kTest].size(), 1u);
  const auto task = make_task(LanguageModel{.files = files});
  try {
    make_batch(*task, {"train", 16, 16, Split::kValidation}, 1, 0, 1);
    FAIL() << "there are no validation documents";
  } catch (const Error& error) {
    EXPECT_EQ(error.key(), "validation_share");
  }
}

std::string lines_of_text(std::size_t lines) {
  std::string text;
  for (std::size_t i = 0; i < lines; ++i) text += "line " + std::to_string(10000 + i) + "\n";
  return text;
}

class OneText : public ::testing::Test {
 protected:
  [[nodiscard]] SplitDocuments split(const std::string& text, std::int64_t context) {
    text_ = text;
    const Bytes bytes(reinterpret_cast<const std::uint8_t*>(text_.data()), text_.size());
    return split_text({"book", bytes},
                      {.test_share = 0.2, .validation_share = 0.1, .longest_context = context});
  }
  [[nodiscard]] std::size_t begin(const Document& document) const {
    return static_cast<std::size_t>(document.bytes.data() -
                                    reinterpret_cast<const std::uint8_t*>(text_.data()));
  }
  std::string text_;
};

TEST_F(OneText, HoldsOutItsEndWithGaps) {
  const SplitDocuments parts = split(lines_of_text(1000), 100);  // 11 bytes a line
  const auto& [training, validation, test] = parts;
  ASSERT_EQ(training.size(), 1u);
  EXPECT_EQ(begin(training[0]), 0u);
  EXPECT_EQ(test.size(), 5u);        // 2200 bytes in pieces of at least 400
  EXPECT_EQ(validation.size(), 2u);  // 1100
  EXPECT_EQ(begin(test.back()) + test.back().bytes.size(), text_.size());
  std::size_t bytes = 0;
  for (const Document& piece : test) bytes += piece.bytes.size();
  EXPECT_EQ(bytes, 2200u);
  const std::size_t validation_end = begin(validation.back()) + validation.back().bytes.size();
  EXPECT_GE(begin(test.front()), validation_end + 100);
  EXPECT_LE(begin(test.front()), validation_end + 111);
  EXPECT_GE(begin(validation.front()), training[0].bytes.size() + 100);
  EXPECT_LE(begin(validation.front()), training[0].bytes.size() + 111);
}

TEST_F(OneText, IsCutAtLineEnds) {
  for (const auto& side : split(lines_of_text(1003), 100)) {
    for (const Document& piece : side) {
      EXPECT_EQ(piece.bytes[0], 'l') << piece.name;
      EXPECT_EQ(piece.bytes.back(), '\n') << piece.name;
    }
  }
}

TEST_F(OneText, WithoutLinesIsCutAnywhere) {
  const SplitDocuments parts = split(std::string(10000, 'x'), 100);
  EXPECT_EQ(parts[0][0].bytes.size(), 10000u - 2000u - 100u - 1000u - 100u);
}

TEST_F(OneText, ServesEverySplitOfATask) {
  const TextFiles folder;
  folder.write("book.txt", lines_of_text(1000));
  const auto task = make_task(
      LanguageModel{.files = {.path = folder.path() + "/book.txt", .longest_context = 100}});
  for (const Split side : kSplits) {
    const Batch batch = make_batch(*task, {"train", 32, 32, side}, 1, 0, 4);
    EXPECT_NE(batch.targets[0], kUnscored);
  }
}

TEST_F(OneText, ThatIsTooShortHoldsNothingOut) {
  const auto& [training, validation, test] = split(std::string(100, 'x'), 100);
  EXPECT_EQ(training[0].bytes.size(), 100u);
  EXPECT_TRUE(validation.empty());
  EXPECT_TRUE(test.empty());
}

}  // namespace
}  // namespace posenc::tasks
