// Runs over text: what chooses a model is apart from what judges it, and the text is the run's own.
#include <gtest/gtest.h>

#include "core/value.h"
#include "posenc/core/rng.h"
#include "runs/metrics.h"
#include "runs/run_directory.h"
#include "tasks/corpus.h"
#include "train/lab_process.h"

namespace posenc::testing {
namespace {

std::string letters(std::uint64_t seed, char first = 'a') {
  Rng rng(seed);
  std::string text;
  while (text.size() < 500) text += static_cast<char>(first + rng.integer(0, 25));
  return text;
}

class TextRuns : public ::testing::Test {
 protected:
  TextRuns() {
    std::filesystem::create_directory(folder_ / "texts");
    for (int i = 0; i < 20; ++i) folder_.write("texts/" + std::to_string(i), letters(i));
  }
  [[nodiscard]] std::string run() const { return folder_ / "run"; }
  [[nodiscard]] LabResult train(const std::string& more = "") const {
    const std::string config =
        "task: {language_model: {path: " + (folder_ / "texts") +
        ", longest_context: 32}}\n"
        "model: {layers: 1, dim: 16, heads: 2}\n"
        "train: {length: 8, batch: 4, steps: 4, eval_every: 2, schedule: constant,\n"
        "        warmup: 1}\n"
        "eval: {factors: [1, 2, 4], samples: 64}\n";
    return run_lab("train " + folder_.write("config.yaml", config) + " --progress plain --out " +
                   run() + " " + more);
  }
  Folder folder_;
};

TEST_F(TextRuns, SayWhatTheyReadAndKeepItsHash) {
  const LabResult result = train();
  ASSERT_EQ(result.code, 0) << result.out;
  EXPECT_NE(result.out.find("17 training documents"), std::string::npos) << result.out;
  const Value environment = runs::RunDirectory::open(run(), runs::Access::kRead).environment();
  const Value* hash = environment.find("data_sha256");
  ASSERT_NE(hash, nullptr);
  EXPECT_EQ(hash->get_if<std::string>()->size(), 64U);
}

// The scored positions of every longer row are beyond the trained length.
TEST_F(TextRuns, ScoreTheSameNumberOfBytesAtEveryLength) {
  const LabResult result = train();
  ASSERT_EQ(result.code, 0) << result.out;
  const Value results = runs::RunDirectory::open(run(), runs::Access::kRead).results().value();
  int longer = 0;
  for (const Value& row : *results.find("rows")->get_if<Value::List>()) {
    if (*row.find("axis")->get_if<std::string>() != "longer") continue;
    ++longer;
    EXPECT_EQ(*row.find("scored")->get_if<std::int64_t>(), 64 * 4);
    const Value* all = row.find("all");
    EXPECT_EQ(*all->find("scored")->get_if<std::int64_t>(), 64 * 4) << "and no others";
  }
  EXPECT_EQ(longer, 3);
}

// Validation documents alone have letters that no other split has, and a split goes by names.
TEST_F(TextRuns, ChooseByTheValidationSplitAndReportTheTestSplit) {
  const tasks::Corpus corpus({.path = folder_ / "texts", .longest_context = 32}, "test");
  for (const tasks::Document& d : corpus.documents(tasks::Split::kValidation)) {
    folder_.write("texts/" + d.name, letters(7, 'A'));
  }
  const LabResult result =
      train("--set train.steps=100 --set train.eval_every=100 --set train.lr=0.01");
  ASSERT_EQ(result.code, 0) << result.out;
  double chosen_by = 0.0;
  for (const Value& row : runs::read_metrics(run() + "/metrics.jsonl")) {
    if (*row.find("kind")->get_if<std::string>() == "eval") {
      chosen_by = *row.find("value")->get_if<double>();
    }
  }
  EXPECT_GT(chosen_by, 7.0) << "bits of letters that training never has";
  const Value results = runs::RunDirectory::open(run(), runs::Access::kRead).results().value();
  for (const Value& row : *results.find("rows")->get_if<Value::List>()) {
    EXPECT_LT(*row.find("value")->get_if<double>(), 6.5);
  }
}

TEST_F(TextRuns, AreNotResumedOrEvaluatedOverOtherText) {
  ASSERT_EQ(train().code, 0);
  EXPECT_EQ(train("--resume --set train.steps=6").code, 0);
  std::string text = letters(3);
  text[0] = text[0] == 'a' ? 'b' : 'a';
  folder_.write("texts/3", text);
  const LabResult resumed = train("--resume --set train.steps=8");
  EXPECT_EQ(resumed.code, 2) << resumed.out;
  EXPECT_NE(resumed.out.find("was trained on other files"), std::string::npos) << resumed.out;
  const LabResult evaluated = run_lab("eval " + run() + " --progress quiet");
  EXPECT_EQ(evaluated.code, 2) << evaluated.out;
  EXPECT_NE(evaluated.out.find("was trained on other files"), std::string::npos) << evaluated.out;
  folder_.write("texts/3", letters(3));
  EXPECT_EQ(run_lab("eval " + run() + " --progress quiet").code, 0);
}

TEST_F(TextRuns, MayBeEvaluatedOnTextThatIsNamed) {
  ASSERT_EQ(train().code, 0);
  std::filesystem::create_directory(folder_ / "others");
  for (int i = 0; i < 20; ++i) folder_.write("others/" + std::to_string(i), letters(100 + i));
  const LabResult result = run_lab("eval " + run() + " --progress quiet --set " +
                                   "task.language_model.path=" + (folder_ / "others") + " --out " +
                                   (folder_ / "others.json"));
  EXPECT_EQ(result.code, 0) << result.out;
  EXPECT_TRUE(std::filesystem::exists(folder_ / "others.json"));
}

}  // namespace
}  // namespace posenc::testing
