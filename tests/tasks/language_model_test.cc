#include "tasks/language_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "posenc/core/error.h"
#include "tasks/corpus.h"
#include "tasks/samples.h"
#include "tasks/text_files.h"

namespace posenc::tasks {
namespace {

// Eight files of different lengths, of which two are long enough and chosen to be held out.
class Files : public ::testing::Test {
 protected:
  Files() {
    for (std::size_t i = 0; i < 8; ++i) {
      const std::string name = "part" + std::to_string(i) + ".txt";
      contents_[name] = noise(700 + 13 * i, i);
      folder_.write(name, contents_[name]);
    }
  }
  [[nodiscard]] CorpusFiles files() const {
    return {.path = folder_.path(), .test_share = 0.25, .min_test_bytes = 600};
  }
  // Names of the files of one side, by an own look at the corpus.
  [[nodiscard]] std::vector<std::string> side(bool held_out) const {
    std::vector<std::string> names;
    const Corpus corpus(files(), "test");
    for (const Document& document : corpus.documents(held_out)) names.push_back(document.name);
    return names;
  }
  // Whether any file of that side holds these bytes.
  [[nodiscard]] bool holds(bool held_out, const std::string& bytes) const {
    const std::vector<std::string> names = side(held_out);
    return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return contents_.at(name).find(bytes) != std::string::npos;
    });
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

TEST_F(Files, TrainWindowsComeFromTrainingFilesAndHeldOutOnesFromTestFiles) {
  const auto task = make_task(LanguageModel{.files = files()});
  EXPECT_EQ(side(true).size(), 2u);
  EXPECT_EQ(side(false).size(), 6u);
  for (const bool held_out : {false, true}) {
    const Batch batch = make_batch(*task, {"train", 32, 32, held_out}, 1, 0, 300);
    for (std::int64_t row = 0; row < batch.rows; ++row) {
      EXPECT_TRUE(holds(held_out, window_bytes(batch, row)));
      EXPECT_FALSE(holds(!held_out, window_bytes(batch, row)));
    }
    EXPECT_FALSE(task->rows({"train", 32, 32, held_out}).has_value());
  }
}

TEST_F(Files, TargetsAreTheNextTokens) {
  const auto task = make_task(LanguageModel{.files = files()});
  const Batch batch = make_batch(*task, {"train", 32}, 1, 0, 50);
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    for (std::int64_t t = 0; t + 1 < batch.length; ++t) {
      EXPECT_EQ(batch.targets[place(batch, row, t)], batch.tokens[place(batch, row, t + 1)]);
    }
  }
}

TEST_F(Files, WindowsStartAnywhereEquallyOften) {
  TextFiles one;
  std::string bytes(260, 'x');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i % 256);
  one.write("a.txt", bytes.substr(0, 104));  // 72 starts of 32 tokens and an answer
  const auto task = make_task(LanguageModel{.files = {.path = one.path(), .test_share = 0.0}});
  const Batch batch = make_batch(*task, {"train", 32}, 1, 0, 7200);
  std::vector<int> starts(256);
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    ++starts[static_cast<std::size_t>(batch.tokens[place(batch, row, 0)])];
  }
  for (std::size_t s = 0; s < 72; ++s) EXPECT_NEAR(starts[s], 100, 45) << s;
  EXPECT_EQ(std::count(starts.begin() + 72, starts.end(), 0), 256 - 72);
}

// All bytes but the first of each file are said once, whatever the length: perplexities of two
// lengths are over the same bytes.
TEST_F(Files, WindowsSayEveryByteOnce) {
  const auto task = make_task(LanguageModel{.files = files()});
  std::string expected;
  for (const std::string& name : side(true)) expected += contents_[name].substr(1);
  for (const std::int64_t length : {16, 37, 128, 5000}) {
    const Condition condition{"windows", length, 16, true};
    const std::int64_t rows = task->rows(condition).value();
    const Batch batch = make_batch(*task, condition, 1, 0, rows);
    std::string said;
    for (std::size_t i = 0; i < batch.targets.size(); ++i) {
      if (batch.targets[i] != kUnscored) said += static_cast<char>(batch.targets[i]);
      EXPECT_EQ(batch.tokens[i] == 256, batch.targets[i] == kUnscored);
    }
    EXPECT_EQ(said, expected) << length;
  }
}

TEST_F(Files, SlidingWindowsSayEveryByteOnceWithEnoughBeforeIt) {
  const auto task = make_task(LanguageModel{.files = files(), .stride = 10});
  for (const std::int64_t length : {10, 32, 64}) {
    const Condition condition{"sliding", length, 32, true};
    const Batch batch = make_batch(*task, condition, 1, 0, task->rows(condition).value());
    std::string expected;
    for (const std::string& name : side(true)) {
      expected += contents_[name].substr(static_cast<std::size_t>(length - 10 + 1));
    }
    std::string said;
    for (std::int64_t row = 0; row < batch.rows; ++row) {
      std::string window;
      for (std::int64_t t = 0; t < length; ++t) {
        const std::int32_t token = batch.tokens[place(batch, row, t)];
        if (token < 256) window += static_cast<char>(token);
        const std::int32_t target = batch.targets[place(batch, row, t)];
        EXPECT_TRUE(target == kUnscored || t >= length - 10);
        if (target != kUnscored) said += static_cast<char>(target);
      }
      EXPECT_TRUE(holds(true, window));
    }
    EXPECT_EQ(said, expected) << length;
  }
}

TEST_F(Files, RowsEndWhereTheFilesDo) {
  const auto task = make_task(LanguageModel{.files = files()});
  const Condition condition{"windows", 64, 64, true};
  const std::int64_t rows = task->rows(condition).value();
  const Batch last = make_batch(*task, condition, 1, static_cast<std::uint64_t>(rows - 1), 1);
  EXPECT_NE(last.targets[0], kUnscored);
  EXPECT_THROW(make_batch(*task, condition, 1, static_cast<std::uint64_t>(rows), 1), Error);
  EXPECT_THROW(make_batch(*task, condition, 1, ~std::uint64_t{0}, 2), Error);
  EXPECT_THROW(make_batch(*task, {"train", 5000}, 1, 0, 1), Error);  // no file is that long
}

TEST_F(Files, ChanceIsTheEntropyOfSingleBytes) {
  TextFiles two;
  std::string bytes = noise(40000, 1);
  for (char& byte : bytes) byte = (byte & 3) == 0 ? 'a' : 'b';  // one in four
  two.write("a.txt", bytes);
  const auto task = make_task(LanguageModel{.files = {.path = two.path(), .test_share = 0.0}});
  EXPECT_NEAR(task->chance({"train", 64}), 0.8113, 0.02);
  EXPECT_EQ(task->info().metric, "bits_per_byte");
}

TEST_F(Files, RowsDoNotDependOnTheSplitIntoBatches) {
  const auto task = make_task(LanguageModel{.files = files()});
  for (const char* axis : {"train", "windows", "sliding"}) {
    const Batch whole = make_batch(*task, {axis, 32}, 1, 3, 9);
    const Batch part = make_batch(*task, {axis, 32}, 1, 7, 5);
    EXPECT_TRUE(std::equal(part.tokens.begin(), part.tokens.end(), whole.tokens.begin() + 4 * 32));
    EXPECT_TRUE(
        std::equal(part.targets.begin(), part.targets.end(), whole.targets.begin() + 4 * 32));
  }
}

}  // namespace
}  // namespace posenc::tasks
