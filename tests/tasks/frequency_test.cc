// Samples come as often as the definitions say.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "posenc/core/error.h"
#include "tasks/generated_tasks.h"

namespace posenc::tasks {
namespace {

std::int64_t count_word(const Words& words, const std::string& word) {
  return std::count(words.begin(), words.end(), word);
}

TEST(FlipFlopRows, IgnoreWriteAndReadAsOftenAsTheAxisSays) {
  const auto task = make_task(FlipFlop{});
  for (const auto& [axis, p] : {std::pair{"train", 0.8}, {"dense", 0.1}, {"sparse", 0.98}}) {
    const Batch batch = make_batch(*task, {axis, 512}, 1, 0, 200);
    std::int64_t ignored = 0;
    std::int64_t written = 0;
    std::int64_t ones = 0;
    for (std::int64_t row = 0; row < batch.rows; ++row) {
      const Words words = row_words(*task, batch, row);
      EXPECT_EQ(words.front(), "w");
      EXPECT_EQ(words[510], "r");
      ignored += count_word(words, "i");
      written += count_word(words, "w") - 1;
      ones += count_word(words, "1");
    }
    EXPECT_NEAR(share(ignored, 200 * 254), p, 0.01) << axis;  // all but the first and the last
    EXPECT_NEAR(share(written, 200 * 254), (1 - p) / 2, 0.01) << axis;
    EXPECT_NEAR(share(ones, 200 * 256), 0.5, 0.05) << axis;
  }
}

TEST(ParityRows, HaveADigitAtEveryPlaceBetweenTheMarks) {
  const auto task = make_task(Parity{.modulo = 5});
  const Batch batch = make_batch(*task, {"train", 20}, 1, 0, 300);
  std::vector<std::set<std::string>> seen(20);
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    const Words words = row_words(*task, batch, row);
    for (std::size_t t = 0; t < words.size(); ++t) seen[t].insert(words[t]);
  }
  EXPECT_EQ(seen.front(), std::set<std::string>{"<bos>"});
  EXPECT_EQ(seen.back(), std::set<std::string>{"<query>"});
  const std::set<std::string> digits = {"0", "1", "2", "3", "4"};
  for (std::size_t t = 1; t < 19; ++t) EXPECT_EQ(seen[t], digits) << t;
}

TEST(SelectiveCopyRows, HaveThePublishedNumbersOfSymbolsAndBlanks) {
  const auto task = make_task(SelectiveCopy{});
  for (const auto& [axis, length] :
       {std::pair{"train", 768}, {"dense", 640}, {"sparse", 1024}, {"longer", 768}}) {
    EXPECT_EQ(task->natural_length(axis, 768), length) << axis;
  }
  // Every axis has the symbols of the training length, at any length.
  for (const auto& [axis, length] : {std::pair{"train", 768},
                                     {"dense", 640},
                                     {"dense", 600},
                                     {"sparse", 1024},
                                     {"longer", 1536}}) {
    const Batch batch = make_batch(*task, {axis, length, 768}, 1, 0, 3);
    const Words words = row_words(*task, batch, 0);
    EXPECT_EQ(count_word(words, "."), length - 512) << axis;
    EXPECT_EQ(words[static_cast<std::size_t>(length - 256)], "|") << axis;
  }
  EXPECT_THROW(make_batch(*task, {"dense", 511, 768}, 1, 0, 1), Error);
  const auto markers = make_task(SelectiveCopy{.form = SelectiveCopy::Form::kMamba});
  const Batch batch = make_batch(*markers, {"train", 4096 + 32}, 1, 0, 1);
  EXPECT_EQ(count_word(row_words(*markers, batch, 0), "."), 4096);
  EXPECT_EQ(count_word(row_words(*markers, batch, 0), "?"), 16);
}

TEST(SelectiveCopyRows, SpreadSymbolsEvenly) {
  const auto task = make_task(SelectiveCopy{});
  const Batch batch = make_batch(*task, {"train", 60}, 1, 0, 4000);
  for (std::int64_t t = 0; t < 40; ++t) {
    std::int64_t symbols = 0;
    for (std::int64_t row = 0; row < batch.rows; ++row) {
      symbols += task->token_text(batch.tokens[place(batch, row, t)]) == "." ? 0 : 1;
    }
    EXPECT_NEAR(share(symbols, 4000), 0.5, 0.04) << t;
  }
}

TEST(MqarRows, HaveDifferentKeysAndValuesAndTheGapsOfAPowerLaw) {
  const auto task = make_task(Mqar{.pairs = 4, .vocabulary = 64, .power = 0.3});
  const Batch batch = make_batch(*task, {"train", 48}, 1, 0, 8000);
  std::int64_t nearest = 0;
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    std::set<std::int32_t> pairs;
    for (std::int64_t t = 0; t < 8; ++t) pairs.insert(batch.tokens[place(batch, row, t)]);
    ASSERT_EQ(pairs.size(), 8u);
    // The first key drew its slot first: is it the nearest one?
    nearest += batch.tokens[place(batch, row, 8)] == batch.tokens[place(batch, row, 0)] &&
                       batch.targets[place(batch, row, 8)] != kUnscored
                   ? 1
                   : 0;
  }
  double total = 0;
  for (int g = 1; g <= 20; ++g) total += std::pow(g, 0.3 - 1.0);
  EXPECT_NEAR(share(nearest, 8000), 1.0 / total, 0.02);
}

TEST(MqarRows, MorePairsInProportion) {
  const auto task = make_task(Mqar{.pairs = 4, .vocabulary = 256});
  for (const auto& [axis, pairs] : {std::pair{"longer", 4}, {"more", 12}}) {
    const Batch batch = make_batch(*task, {axis, 144, 48}, 1, 0, 10);
    EXPECT_EQ(std::count_if(batch.targets.begin(), batch.targets.end(),
                            [](std::int32_t target) { return target != kUnscored; }),
              10 * pairs)
        << axis;
  }
  const Batch batch = make_batch(*task, {"more", 144, 48}, 1, 0, 10);
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    const Words words = row_words(*task, batch, row);
    for (std::int64_t t = 0; t < batch.length; ++t) {
      const std::int32_t target = batch.targets[place(batch, row, t)];
      if (target == kUnscored) continue;
      const Words so_far(words.begin(), words.begin() + t + 1);
      EXPECT_EQ(mqar_solver(12)(so_far).answer, task->token_text(target));
    }
  }
}

TEST(NBackRows, EventsComeAsOftenAsTheAxisSays) {
  const auto task = make_task(NBack{});
  for (const auto& [axis, filler] :
       {std::pair{"train", 0.3}, {"longer", 0.3}, {"dense", 0.0}, {"sparse", 0.7}}) {
    const Batch batch = make_batch(*task, {axis, 406}, 1, 0, 100);
    std::int64_t fillers = 0;
    std::int64_t questions = 0;
    for (std::int64_t row = 0; row < batch.rows; ++row) {
      const Words words = row_words(*task, batch, row);
      fillers += count_word(words, ".") / 2;
      questions += count_word(words, "?") - 1;
    }
    EXPECT_NEAR(share(fillers, 100 * 200), filler, 0.015) << axis;
    EXPECT_NEAR(share(questions, 100 * 200), 0.2, 0.015) << axis;
  }
}

TEST(SegmentRows, SparseWordsAreLongerAndNumbersStayTheSame) {
  const auto task = make_task(IthWord{});
  for (const auto& [axis, letters] : {std::pair{"train", 3.5}, {"sparse", 7.5}}) {
    const Batch batch = make_batch(*task, {axis, 403}, 1, 0, 200);
    std::int64_t words_seen = 0;
    std::vector<int> asked(9);
    for (std::int64_t row = 0; row < batch.rows; ++row) {
      const Words words = row_words(*task, batch, row);
      words_seen += count_word(words, "_");
      ++asked.at(std::stoul(words.back()));
    }
    EXPECT_NEAR(share(200 * 400, words_seen) - 1.0, letters, 0.7) << axis;
    for (std::size_t k = 1; k <= 8; ++k) EXPECT_NEAR(share(asked[k], 200), 1.0 / 8, 0.09) << axis;
  }
}

}  // namespace
}  // namespace posenc::tasks
