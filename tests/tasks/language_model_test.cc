#include "tasks/language_model.h"

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

// Twelve files of different lengths, of which six are held out.
class Files : public ::testing::Test {
 protected:
  Files() {
    for (std::size_t i = 0; i < 12; ++i) {
      const std::string name = "part" + std::to_string(i) + ".txt";
      contents_[name] = noise(700 + 130 * i, i);
      folder_.write(name, contents_[name]);
    }
  }
  [[nodiscard]] CorpusFiles files() const {
    return {
        .path = folder_.path(), .test_share = 0.3, .validation_share = 0.2, .longest_context = 256};
  }
  [[nodiscard]] std::unique_ptr<Task> task() const {
    return make_task(LanguageModel{.files = files(), .scored = 16});
  }
  // Contents of the documents of one side, by an own look at the corpus.
  [[nodiscard]] std::vector<std::string> side(Split split) const {
    std::vector<std::string> texts;
    const Corpus corpus(files(), "test");
    for (const Document& d : corpus.documents(split)) texts.push_back(contents_.at(d.name));
    return texts;
  }
  // Number of the document of that side that holds these bytes, and where.
  [[nodiscard]] std::optional<std::pair<std::uint32_t, std::size_t>> find(
      Split split, const std::string& bytes) const {
    const std::vector<std::string> texts = side(split);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const std::size_t at = texts[i].find(bytes);
      if (at != std::string::npos) return std::pair{static_cast<std::uint32_t>(i), at};
    }
    return std::nullopt;
  }

  TextFiles folder_;
  std::map<std::string, std::string> contents_;
};

std::string window_bytes(const Batch& batch, std::int64_t row) {
  std::string bytes;
  for (std::int64_t t = 0; t < batch.length; ++t) {
    bytes += static_cast<char>(batch.tokens[place(batch, row, t)]);
  }
  return bytes + static_cast<char>(batch.targets[place(batch, row, batch.length - 1)]);
}

// The answers of a row, and the first position that has one.
std::pair<std::string, std::int64_t> said(const Batch& batch, std::int64_t row) {
  std::string bytes;
  for (std::int64_t t = 0; t < batch.length; ++t) {
    const std::int32_t target = batch.targets[place(batch, row, t)];
    if (target != kUnscored) bytes += static_cast<char>(target);
  }
  return {bytes, batch.length - static_cast<std::int64_t>(bytes.size())};
}

TEST_F(Files, WindowsComeFromTheDocumentsOfTheirSplitAlone) {
  const auto task = this->task();
  for (const Split split : kSplits) {
    EXPECT_GE(side(split).size(), 2u);
    const Batch batch = make_batch(*task, {"train", 32, 32, split}, 1, 0, 60);
    for (std::int64_t row = 0; row < batch.rows; ++row) {
      for (const Split other : kSplits) {
        EXPECT_EQ(find(other, window_bytes(batch, row)).has_value(), other == split);
      }
    }
  }
}

TEST_F(Files, TargetsAreTheNextTokens) {
  const auto task = this->task();
  for (const Split split : kSplits) {
    const Batch batch = make_batch(*task, {"train", 32, 32, split}, 1, 0, 50);
    for (std::int64_t row = 0; row < batch.rows; ++row) {
      for (std::int64_t t = 0; t + 1 < batch.length; ++t) {
        EXPECT_EQ(batch.targets[place(batch, row, t)], batch.tokens[place(batch, row, t + 1)]);
      }
    }
  }
}

TEST_F(Files, TrainingWindowsStartAnywhereEquallyOften) {
  TextFiles one;
  std::string bytes(104, 'x');  // 72 starts of 32 tokens and an answer
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i);
  one.write("a.txt", bytes);
  const auto task = make_task(
      LanguageModel{.files = {.path = one.path(), .test_share = 0.0, .validation_share = 0.0}});
  EXPECT_FALSE(task->rows({"train", 32}).has_value());
  const Batch batch = make_batch(*task, {"train", 32}, 1, 0, 7200);
  std::vector<int> starts(256);
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    ++starts[static_cast<std::size_t>(batch.tokens[place(batch, row, 0)])];
  }
  for (std::size_t s = 0; s < 72; ++s) EXPECT_NEAR(starts[s], 100, 45) << s;
  EXPECT_EQ(std::count(starts.begin() + 72, starts.end(), 0), 256 - 72);
}

// Held-out windows of axis train are side by side: every byte of a document is said once, but for the
// first and for what is left at the end.
TEST_F(Files, HeldOutWindowsSayEveryByteOnce) {
  const auto task = this->task();
  for (const std::int64_t length : {16, 37, 256}) {
    const Condition condition{"train", length, length, Split::kTest};
    std::set<std::pair<std::uint32_t, std::size_t>> found;
    const Batch batch = make_batch(*task, condition, 1, 0, task->rows(condition).value());
    for (std::int64_t row = 0; row < batch.rows; ++row) {
      found.insert(find(Split::kTest, window_bytes(batch, row)).value());
    }
    std::set<std::pair<std::uint32_t, std::size_t>> expected;
    const std::vector<std::string> texts = side(Split::kTest);
    for (std::uint32_t d = 0; d < texts.size(); ++d) {
      for (std::size_t at = 0; at + static_cast<std::size_t>(length) < texts[d].size();
           at += static_cast<std::size_t>(length)) {
        expected.insert({d, at});
      }
    }
    EXPECT_EQ(found, expected) << length;
    EXPECT_EQ(static_cast<std::size_t>(batch.rows), expected.size());
  }
}

TEST_F(Files, EveryLengthSaysTheSameBytes) {
  const auto task = this->task();
  const auto condition = [](std::int64_t length) {
    return Condition{"longer", length, 32, Split::kTest};
  };
  const std::int64_t rows = task->rows(condition(32)).value();
  const Batch first = make_batch(*task, condition(32), 1, 0, rows);
  for (const std::int64_t length : {16, 64, 100, 256}) {
    ASSERT_EQ(task->rows(condition(length)), rows);
    const Batch batch = make_batch(*task, condition(length), 7, 0, rows);
    for (std::int64_t row = 0; row < rows; ++row) {
      EXPECT_EQ(said(batch, row).first, said(first, row).first);
      EXPECT_EQ(said(batch, row).second, length - 16) << "scored at the end of the row";
      EXPECT_TRUE(find(Split::kTest, window_bytes(batch, row)).has_value());
    }
  }
}

TEST_F(Files, LongerRowsSayEveryByteAfterTheLongestContext) {
  const auto task = this->task();
  const Condition condition{"longer", 256, 128, Split::kTest};
  const Batch batch = make_batch(*task, condition, 1, 0, task->rows(condition).value());
  std::multiset<std::string> found;
  for (std::int64_t row = 0; row < batch.rows; ++row) found.insert(said(batch, row).first);
  std::multiset<std::string> expected;
  for (const std::string& text : side(Split::kTest)) {
    for (std::size_t at = 256 + 1 - 16; at + 16 <= text.size(); at += 16) {
      expected.insert(text.substr(at, 16));
    }
  }
  EXPECT_EQ(found, expected);
}

// As many rows of each document as its share of the blocks asks for, and not its first ones.
TEST_F(Files, AFewRowsAreSpreadOverAllDocuments) {
  const auto task = this->task();
  const std::vector<std::string> texts = side(Split::kTest);
  const Condition condition{"longer", 64, 32, Split::kTest};
  const auto all = static_cast<double>(task->rows(condition).value());
  for (const std::int64_t rows : {16, 32, 50}) {
    std::map<std::uint32_t, std::vector<double>> places;
    const Batch batch = make_batch(*task, condition, 1, 0, rows);
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto [document, at] = find(Split::kTest, window_bytes(batch, row)).value();
      EXPECT_EQ(task->cluster(condition, static_cast<std::uint64_t>(row)), document);
      places[document].push_back((static_cast<double>(at) + 64 - 256) /
                                 (static_cast<double>(texts[document].size()) - 256));
    }
    ASSERT_EQ(places.size(), texts.size());
    for (auto& [document, found] : places) {
      const double blocks = (static_cast<double>(texts[document].size()) - 256) / 16;
      EXPECT_NEAR(static_cast<double>(found.size()), static_cast<double>(rows) * blocks / all, 2.0);
      std::sort(found.begin(), found.end());
      EXPECT_LT(found.front(), 0.5);
      EXPECT_GT(found.back(), 0.5);
    }
  }
}

TEST_F(Files, ClustersAreTheDocuments) {
  const auto task = this->task();
  for (const Split split : {Split::kValidation, Split::kTest}) {
    const Condition condition{"train", 64, 64, split};
    const Batch batch = make_batch(*task, condition, 1, 0, task->rows(condition).value());
    std::set<std::uint32_t> seen;
    for (std::int64_t row = 0; row < batch.rows; ++row) {
      const auto cluster = task->cluster(condition, static_cast<std::uint64_t>(row));
      EXPECT_EQ(cluster, find(split, window_bytes(batch, row)).value().first);
      seen.insert(cluster.value());
    }
    EXPECT_EQ(seen.size(), side(split).size());
  }
  EXPECT_FALSE(task->cluster({"train", 64}, 0).has_value()) << "training draws rows at random";
}

std::string error_of(const Task& task, const Condition& condition) {
  try {
    make_batch(task, condition, 1, 0, 1);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST_F(Files, LengthsThatCannotBeCompared) {
  const auto task = this->task();
  EXPECT_EQ(error_of(*task, {"longer", 257, 32, Split::kTest}),
            "[language_model] length must be <= 256 (longest_context) but got 257; raise "
            "longest_context, which holds out longer documents");
  EXPECT_NE(error_of(*task, {"train", 257, 32, Split::kTest}).find("longest_context"),
            std::string::npos);
  const std::string rule =
      "[language_model] length must be from 16 (scored) to the training length 32, or at least 16 "
      "more but got ";
  EXPECT_EQ(error_of(*task, {"longer", 47, 32, Split::kTest}).find(rule + "47"), 0u);
  EXPECT_EQ(error_of(*task, {"longer", 15, 32, Split::kTest}).find(rule + "15"), 0u);
  EXPECT_EQ(error_of(*task, {"longer", 48, 32, Split::kTest}), "no error");
  EXPECT_EQ(error_of(*task, {"longer", 8, 8, Split::kTest}), "no error")
      << "no more is scored than half a training row";
  EXPECT_NE(error_of(*task, {"train", 5000}).find("training document"), std::string::npos);
}

TEST_F(Files, RowsEndWhereTheBlocksDo) {
  const auto task = this->task();
  const Condition condition{"longer", 64, 64, Split::kTest};
  const auto rows = static_cast<std::uint64_t>(task->rows(condition).value());
  EXPECT_EQ(make_batch(*task, condition, 1, rows - 1, 1).targets.size(), 64u);
  EXPECT_THROW(make_batch(*task, condition, 1, rows, 1), Error);
  EXPECT_TRUE(task->cluster(condition, rows - 1).has_value());
  EXPECT_FALSE(task->cluster(condition, rows).has_value());
  EXPECT_THROW(make_batch(*task, condition, 1, ~std::uint64_t{0}, 2), Error);
}

TEST_F(Files, ChanceIsTheEntropyOfSingleBytes) {
  TextFiles two;
  std::string bytes = noise(40000, 1);
  for (char& byte : bytes) byte = (byte & 3) == 0 ? 'a' : 'b';  // one in four
  two.write("a.txt", bytes);
  const auto task = make_task(
      LanguageModel{.files = {.path = two.path(), .test_share = 0.0, .validation_share = 0.0}});
  EXPECT_NEAR(task->chance({"train", 64}), 0.8113, 0.02);
  EXPECT_EQ(task->info().metric, Metric::kBitsPerByte);
}

TEST_F(Files, RowsDoNotDependOnTheSplitIntoBatches) {
  const auto task = this->task();
  for (const char* axis : {"train", "longer"}) {
    for (const Split split : {Split::kTrain, Split::kTest}) {
      const Batch whole = make_batch(*task, {axis, 32, 32, split}, 1, 3, 9);
      const Batch part = make_batch(*task, {axis, 32, 32, split}, 1, 7, 5);
      EXPECT_TRUE(
          std::equal(part.tokens.begin(), part.tokens.end(), whole.tokens.begin() + 4 * 32));
      EXPECT_TRUE(
          std::equal(part.targets.begin(), part.targets.end(), whole.targets.begin() + 4 * 32));
    }
  }
}

}  // namespace
}  // namespace posenc::tasks
