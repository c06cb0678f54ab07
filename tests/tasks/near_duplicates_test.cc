// Training text that repeats held-out text, and tables that are not text.
#include "tasks/near_duplicates.h"

#include <gtest/gtest.h>

#include <set>

#include "posenc/core/error.h"
#include "tasks/corpus.h"
#include "tasks/number_table.h"
#include "tasks/samples.h"
#include "tasks/text_files.h"

namespace posenc::tasks {
namespace {

using Texts = std::vector<std::string>;

Bytes bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

std::set<std::string> strings_of(const Texts& texts) {
  std::set<std::string> strings;
  for (const std::string& text : texts) {
    for (std::size_t i = 0; i + 50 <= text.size(); ++i) strings.insert(text.substr(i, 50));
  }
  return strings;
}

// Share of the held-out strings that occur in training, string by string.
double shared(const Texts& training, const Texts& held_out) {
  const std::set<std::string> trained = strings_of(training);
  const std::set<std::string> asked = strings_of(held_out);
  std::int64_t both = 0;
  for (const std::string& string : asked) both += trained.contains(string) ? 1 : 0;
  return share(both, static_cast<std::int64_t>(asked.size()));
}

class NearDuplicates : public ::testing::Test {
 protected:
  Overlap drop(double max_shared) {
    const auto documents = [](const Texts& texts) {
      std::vector<Document> list;
      for (const std::string& text : texts) list.push_back({"", bytes_of(text)});
      return list;
    };
    SplitDocuments split = {documents(training_), documents(validation_), documents(test_)};
    const Overlap overlap = drop_near_duplicates(split, max_shared);
    kept_.clear();
    for (const Document& d : split[0]) kept_.emplace_back(d.bytes.begin(), d.bytes.end());
    EXPECT_EQ(split[1].size() + split[2].size(), validation_.size() + test_.size());
    return overlap;
  }

  Texts validation_ = {noise(2000, 1)};
  Texts test_ = {noise(3000, 2), noise(3000, 3)};
  Texts training_ = {noise(4000, 4)};
  Texts kept_;
};

TEST_F(NearDuplicates, LeaveTheTrainingDocuments) {
  std::string edited = test_[0];  // one byte in a hundred differs
  for (std::size_t i = 0; i < edited.size(); i += 100) edited[i] = static_cast<char>(edited[i] ^ 1);
  training_.push_back(edited);
  training_.push_back(validation_[0] + noise(500, 5));
  training_.push_back(noise(4000, 6));
  Texts held_out = test_;
  held_out.push_back(validation_[0]);
  const Overlap overlap = drop(0.1);
  EXPECT_EQ(overlap.dropped, 2u);
  EXPECT_EQ(kept_, (Texts{training_[0], training_[3]}));
  EXPECT_DOUBLE_EQ(overlap.before, shared(training_, held_out));
  EXPECT_GT(overlap.before, 0.4);
  EXPECT_EQ(overlap.after, 0.0);
  EXPECT_EQ(shared(kept_, held_out), 0.0);
}

TEST_F(NearDuplicates, StayBelowTheShare) {
  training_.push_back(noise(4500, 7) + test_[1].substr(0, 500));  // 451 of 4951 strings: 9.1 %
  EXPECT_EQ(drop(0.095).dropped, 0u);
  const Overlap kept = drop(0.095);
  EXPECT_DOUBLE_EQ(kept.after, kept.before);
  EXPECT_GT(kept.after, 0.0);
  EXPECT_EQ(drop(0.09).dropped, 1u);
  EXPECT_EQ(drop(1.0).dropped, 0u);
}

// Of more than 2^18 held-out strings a sample is compared: the same answer, nearly the same measure.
TEST_F(NearDuplicates, AreFoundInASampleOfALargeCorpus) {
  test_ = {noise(4'000'000, 8)};
  training_ = {noise(100'000, 9), test_[0].substr(0, 400'000) + noise(100'000, 10)};
  const Overlap overlap = drop(0.1);
  EXPECT_EQ(overlap.dropped, 1u);
  EXPECT_NEAR(overlap.before, 0.1, 0.005);
  EXPECT_EQ(overlap.after, 0.0);
}

TEST_F(NearDuplicates, AreNotDocumentsWithOneStringInCommon) {
  training_.push_back(test_[0].substr(0, 51));  // two strings, both shared
  training_.push_back(test_[0].substr(0, 52));
  EXPECT_EQ(drop(0.1).dropped, 1u);
  EXPECT_EQ(kept_, (Texts{training_[0], training_[1]}));
}

TEST_F(NearDuplicates, AreDroppedFromACorpus) {
  const TextFiles folder;
  for (std::size_t i = 0; i < 20; ++i) {
    folder.write("f" + std::to_string(i), noise(1000, i));
    folder.write("copies/f" + std::to_string(i), noise(1000, i));
  }
  const CorpusFiles files{.path = folder.path(), .longest_context = 100};
  const Corpus corpus(files, "test");
  Texts texts[2];
  for (const Split split : {Split::kTrain, Split::kValidation, Split::kTest}) {
    for (const Document& d : corpus.documents(split)) {
      texts[split == Split::kTrain ? 0 : 1].emplace_back(d.bytes.begin(), d.bytes.end());
    }
  }
  EXPECT_EQ(corpus.overlap().dropped, texts[1].size());
  EXPECT_EQ(shared(texts[0], texts[1]), 0.0);
  EXPECT_DOUBLE_EQ(corpus.overlap().before, 1.0);
}

TEST_F(NearDuplicates, MayLeaveNothingToTrainOn) {
  const TextFiles folder;
  for (std::size_t i = 0; i < 8; ++i) folder.write("f" + std::to_string(i), noise(1000, 1));
  const auto task =
      make_task(LanguageModel{.files = {.path = folder.path(), .longest_context = 9}});
  try {
    make_batch(*task, {"train", 8}, 1, 0, 1);
    FAIL() << "every file is a copy";
  } catch (const Error& error) {
    EXPECT_EQ(error.key(), "max_shared");
  }
}

TEST(NumberTables, AreLinesOfLiterals) {
  EXPECT_TRUE(
      is_number_table(bytes_of("table = {\n  0x80: 0x20ac,  # EURO\n  0x81: 12,\n}\n0x1:2,")));
  EXPECT_TRUE(is_number_table(bytes_of("t = (\n  '\\x00'  #  NULL\n  'A'  #  LETTER A\n '\\n'\n")));
  EXPECT_TRUE(is_number_table(bytes_of("var t = T{\n\n\n {0x41, 0x5a, 1},\n {97, 122, 1},\n")));
  EXPECT_TRUE(is_number_table(bytes_of("1.5e3, 2\n7UL\n")));
}

TEST(NumberTables, AreNotTextOrCode) {
  EXPECT_FALSE(is_number_table(bytes_of("1790 was a year.\n1. First,\n2nd of May\n")));
  EXPECT_FALSE(is_number_table(bytes_of("'''A module.'''\n\"name\": 1,\n'key': [2, 3],\nx = 4\n")));
  EXPECT_FALSE(is_number_table(bytes_of("def f():\n  return [\n    1,\n    2,\n  ]\n")));
  EXPECT_FALSE(is_number_table(bytes_of("1, 2\ntext\n"))) << "half is not most";
  EXPECT_FALSE(is_number_table(bytes_of("\n \n")));
}

TEST(NumberTables, AreDroppedUnlessKept) {
  const TextFiles folder;
  folder.write("a", noise(100, 1));
  folder.write("table", "1, 2,\n3, 4,\n");
  CorpusFiles files{.path = folder.path(), .test_share = 0.0, .validation_share = 0.0};
  EXPECT_EQ(Corpus(files, "test").documents(Split::kTrain).size(), 1u);
  files.keep_tables = true;
  EXPECT_EQ(Corpus(files, "test").documents(Split::kTrain).size(), 2u);
  files.path += "/table";
  EXPECT_EQ(Corpus(files, "test").documents(Split::kTrain).size(), 1u);
  files.keep_tables = false;
  EXPECT_THROW(Corpus(files, "test"), Error);
}

}  // namespace
}  // namespace posenc::tasks
