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

// Where the row comes from, by its first 8 bytes in a row that are not asked for.
std::size_t find_row(const std::string& text, const Batch& batch, std::int64_t row) {
  for (std::int64_t from = 0; from + 8 <= batch.length; ++from) {
    std::string bytes;
    for (std::int64_t t = from; t < from + 8; ++t) {
      if (batch.targets[place(batch, row, t)] != kUnscored) break;
      bytes += static_cast<char>(batch.tokens[place(batch, row, t)]);
    }
    if (bytes.size() == 8) return text.find(bytes) - static_cast<std::size_t>(from);
  }
  return std::string::npos;
}

TEST(MaskedLanguageModel, MasksAndReplacesAsOftenAsSaid) {
  const TextFiles folder;
  const std::string whole = noise(300000, 3);
  folder.write("a", whole);
  const auto task = make_task(MaskedLanguageModel{
      .files = {.path = folder.path(), .test_share = 0.7, .longest_context = 500}});
  EXPECT_TRUE(task->info().bidirectional);
  const Condition condition{"train", 500, 500, Split::kTest};
  const Batch batch = make_batch(*task, condition, 1, 0, 400);
  std::map<std::string, std::int64_t> seen;
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    const std::size_t start = find_row(whole, batch, row);
    ASSERT_NE(start, std::string::npos);
    for (std::int64_t t = 0; t < batch.length; ++t) {
      const std::size_t i = place(batch, row, t);
      const auto original = static_cast<std::int32_t>(
          static_cast<unsigned char>(whole[start + static_cast<std::size_t>(t)]));
      if (batch.targets[i] == kUnscored) {
        ASSERT_EQ(batch.tokens[i], original);
        continue;
      }
      ++seen["chosen"];
      ASSERT_EQ(batch.targets[i], original);
      const bool mask = task->token_text(batch.tokens[i]) == "<mask>";
      ++seen[mask ? "mask" : batch.tokens[i] == original ? "kept" : "random"];
    }
  }
  EXPECT_NEAR(share(seen["chosen"], 200000), 0.15, 0.004);
  EXPECT_NEAR(share(seen["mask"], seen["chosen"]), 0.8, 0.01);
  EXPECT_NEAR(share(seen["kept"], seen["chosen"]), 0.1, 0.01);
  EXPECT_NEAR(share(seen["random"], seen["chosen"]), 0.1, 0.01);
  EXPECT_NE(make_batch(*task, condition, 2, 0, 1).tokens,
            make_batch(*task, condition, 1, 0, 1).tokens);
}

TEST(MaskedLanguageModel, EveryLengthAsksForTheSameBytes) {
  const TextFiles folder;
  for (std::size_t i = 0; i < 10; ++i) folder.write("f" + std::to_string(i), noise(2000, i));
  const auto task = make_task(
      MaskedLanguageModel{.files = {.path = folder.path(), .longest_context = 256}, .scored = 32});
  const Condition near{"longer", 64, 64, Split::kTest};
  const Condition far{"longer", 256, 64, Split::kTest};
  const std::int64_t rows = task->rows(near).value();
  ASSERT_EQ(task->rows(far), rows);
  const Batch a = make_batch(*task, near, 1, 0, rows);
  const Batch b = make_batch(*task, far, 1, 0, rows);
  std::int64_t asked = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t t = 0; t < 64; ++t) {
      EXPECT_EQ(a.tokens[place(a, row, t)], b.tokens[place(b, row, 192 + t)]);
      EXPECT_EQ(a.targets[place(a, row, t)], b.targets[place(b, row, 192 + t)]);
      asked += a.targets[place(a, row, t)] == kUnscored ? 0 : 1;
      EXPECT_TRUE(t >= 32 || a.targets[place(a, row, t)] == kUnscored);
    }
    EXPECT_EQ(task->cluster(near, static_cast<std::uint64_t>(row)),
              task->cluster(far, static_cast<std::uint64_t>(row)));
  }
  EXPECT_NEAR(share(asked, rows * 32), 0.15, 0.03);
}

class Passages : public ::testing::Test {
 protected:
  static constexpr std::size_t kDocuments = 16;

  Passages() {
    for (std::size_t i = 0; i < kDocuments; ++i) {
      documents_.push_back(noise(300 + 20 * i, 50 + i));
      folder_.write("d" + std::to_string(i), documents_.back());
    }
    task_ = make_task(PassageMatching{.files = {.path = folder_.path(),
                                                .test_share = 0.25,
                                                .validation_share = 0.15,
                                                .longest_context = 200}});
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

TEST_F(Passages, SayWhichTokenNobodyLooksAt) {
  const Batch batch = make_batch(*task_, {"train", 103}, 1, 0, 3);
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    EXPECT_EQ(batch.tokens[place(batch, row, 102)], task_->info().pad);
    EXPECT_NE(batch.tokens[place(batch, row, 101)], task_->info().pad);
  }
}

TEST_F(Passages, KeepTheSplitsApart) {
  std::map<Split, std::set<std::size_t>> seen;
  std::set<std::size_t> all;
  for (const Split split : {Split::kTrain, Split::kValidation, Split::kTest}) {
    const Batch batch = make_batch(*task_, {"longer", 103, 64, split}, 1, 0, 500);
    for (std::int64_t row = 0; row < batch.rows; ++row) {
      seen[split].insert(find(passage(batch, row, 1)).first);
      seen[split].insert(find(passage(batch, row, 52)).first);
    }
    all.insert(seen[split].begin(), seen[split].end());
    EXPECT_GE(seen[split].size(), 2u);
  }
  EXPECT_EQ(all.size(), kDocuments);
  EXPECT_EQ(
      seen[Split::kTrain].size() + seen[Split::kValidation].size() + seen[Split::kTest].size(),
      kDocuments);
  EXPECT_NEAR(task_->chance({"train", 102}), 0.5, 0.02);
}

// The first document is the cluster; a few rows already have all of them, and the answers stay.
TEST_F(Passages, TakeTheHeldOutDocumentsInTurnAtEveryLength) {
  const auto condition = [](std::int64_t length) {
    return Condition{"longer", length, 102, Split::kTest};
  };
  const Batch near = make_batch(*task_, condition(102), 1, 0, 40);
  const Batch far = make_batch(*task_, condition(200), 1, 0, 40);
  std::map<std::uint32_t, std::set<std::size_t>> documents;
  for (std::int64_t row = 0; row < 40; ++row) {
    const std::size_t first = find(passage(near, row, 1)).first;
    EXPECT_EQ(find(passage(far, row, 1)).first, first);
    EXPECT_EQ(far.targets[place(far, row, 0)], near.targets[place(near, row, 0)]);
    documents[task_->cluster(condition(102), static_cast<std::uint64_t>(row)).value()].insert(
        first);
    EXPECT_EQ(documents.size(), std::min<std::size_t>(5, static_cast<std::size_t>(row) + 1));
  }
  for (const auto& [cluster, found] : documents) EXPECT_EQ(found.size(), 1u);
  EXPECT_FALSE(task_->cluster({"train", 102}, 0).has_value());
}

TEST_F(Passages, NeedTwoDocumentsThatAreLongEnough) {
  EXPECT_THROW(make_batch(*task_, {"train", 600}, 1, 0, 1), Error);
  EXPECT_THROW(make_batch(*task_, {"train", 3}, 1, 0, 1), Error);
  EXPECT_THROW(make_batch(*task_, {"longer", 201, 102, Split::kTest}, 1, 0, 1), Error);
}

}  // namespace
}  // namespace posenc::tasks
