// Masked language modelling and passage matching.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "posenc/core/error.h"
#include "tasks/samples.h"
#include "tasks/text_files.h"

namespace posenc::tasks {
namespace {

TEST(MaskedLanguageModel, MasksAndReplacesAsOftenAsSaid) {
  const TextFiles folder;
  const std::string bytes = noise(200001, 3);
  folder.write("a", bytes);
  const auto task =
      make_task(MaskedLanguageModel{.files = {.path = folder.path(), .test_share = 0.0}});
  EXPECT_TRUE(task->info().bidirectional);
  const Condition condition{"windows", 500};
  ASSERT_EQ(task->rows(condition).value(), 400);
  const Batch batch = make_batch(*task, condition, 1, 0, 400);
  std::map<std::string, std::int64_t> seen;
  for (std::size_t i = 0; i < batch.tokens.size(); ++i) {
    const auto original = static_cast<std::int32_t>(static_cast<unsigned char>(bytes[i]));
    if (batch.targets[i] == kUnscored) {
      ASSERT_EQ(batch.tokens[i], original);
      continue;
    }
    ++seen["chosen"];
    ASSERT_EQ(batch.targets[i], original);
    const bool mask = task->token_text(batch.tokens[i]) == "<mask>";
    ++seen[mask ? "mask" : batch.tokens[i] == original ? "kept" : "random"];
  }
  EXPECT_NEAR(share(seen["chosen"], 200000), 0.15, 0.004);
  EXPECT_NEAR(share(seen["mask"], seen["chosen"]), 0.8, 0.01);
  EXPECT_NEAR(share(seen["kept"], seen["chosen"]), 0.1, 0.01);
  EXPECT_NEAR(share(seen["random"], seen["chosen"]), 0.1, 0.01);
  EXPECT_NE(make_batch(*task, condition, 2, 0, 1).tokens,
            make_batch(*task, condition, 1, 0, 1).tokens);
}

class Passages : public ::testing::Test {
 protected:
  static constexpr std::size_t kDocuments = 12;

  Passages() {
    for (std::size_t i = 0; i < kDocuments; ++i) {
      documents_.push_back(noise(300 + 20 * i, 50 + i));
      folder_.write("d" + std::to_string(i), documents_.back());
    }
    task_ = make_task(PassageMatching{
        .files = {.path = folder_.path(), .test_share = 0.25, .min_test_bytes = 100}});
  }
  // The document that holds a passage and where in it.
  [[nodiscard]] std::pair<std::size_t, std::size_t> find(const std::string& passage) const {
    for (std::size_t i = 0; i < kDocuments; ++i) {
      const std::size_t at = documents_[i].find(passage);
      if (at != std::string::npos) return {i, at};
    }
    return {kDocuments, 0};
  }
  static std::string passage(const Batch& batch, std::int64_t row, std::int64_t start) {
    std::string bytes;
    for (std::int64_t t = start; t < start + (batch.length - 2) / 2; ++t) {
      bytes += static_cast<char>(batch.tokens[place(batch, row, t)]);
    }
    return bytes;
  }

  TextFiles folder_;
  std::vector<std::string> documents_;
  std::unique_ptr<Task> task_;
};

TEST_F(Passages, AnswerWhetherTheDocumentIsTheSame) {
  const Batch batch = make_batch(*task_, {"train", 102}, 1, 0, 1500);
  std::int64_t same = 0;
  std::int64_t in_order = 0;
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    EXPECT_EQ(task_->token_text(batch.tokens[place(batch, row, 0)]), "<cls>");
    EXPECT_EQ(task_->token_text(batch.tokens[place(batch, row, 51)]), "<sep>");
    const auto [document_a, a] = find(passage(batch, row, 1));
    const auto [document_b, b] = find(passage(batch, row, 52));
    ASSERT_LT(document_a, kDocuments);
    ASSERT_LT(document_b, kDocuments);
    const std::string answer = task_->token_text(batch.targets[place(batch, row, 0)]);
    EXPECT_EQ(answer, document_a == document_b ? "yes" : "no");
    if (document_a != document_b) continue;
    ++same;
    in_order += a < b ? 1 : 0;
    EXPECT_GE(std::max(a, b) - std::min(a, b), 50u);  // they never overlap
  }
  EXPECT_NEAR(share(same, 1500), 0.5, 0.05);
  EXPECT_NEAR(share(in_order, same), 0.5, 0.07);
  for (std::size_t i = 1; i < batch.targets.size(); ++i) {
    EXPECT_EQ(batch.targets[i] == kUnscored, i % 102 != 0);
  }
}

TEST_F(Passages, KeepTestDocumentsApart) {
  std::set<std::size_t> seen[2];
  for (const bool held_out : {false, true}) {
    const Batch batch = make_batch(*task_, {"longer", 103, 64, held_out}, 1, 0, 500);
    for (std::int64_t row = 0; row < batch.rows; ++row) {
      seen[held_out ? 1 : 0].insert(find(passage(batch, row, 1)).first);
      seen[held_out ? 1 : 0].insert(find(passage(batch, row, 52)).first);
    }
  }
  EXPECT_EQ(seen[0].size(), 9u);
  EXPECT_EQ(seen[1].size(), 3u);
  for (const std::size_t document : seen[1]) EXPECT_EQ(seen[0].count(document), 0u);
  EXPECT_NEAR(task_->chance({"train", 102}), 0.5, 0.02);
}

TEST_F(Passages, NeedTwoDocumentsThatAreLongEnough) {
  EXPECT_THROW(make_batch(*task_, {"train", 600}, 1, 0, 1), Error);
  EXPECT_THROW(make_batch(*task_, {"train", 3}, 1, 0, 1), Error);
}

}  // namespace
}  // namespace posenc::tasks
