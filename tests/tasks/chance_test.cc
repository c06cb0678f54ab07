// Chance levels against what can be worked out by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "tasks/generated_tasks.h"

namespace posenc::tasks {
namespace {

double chance(const TaskConfig& config, const Condition& condition) {
  return make_task(config)->chance(condition);
}

TEST(Chance, IsOneOfTheEquallyLikelyAnswers) {
  EXPECT_NEAR(chance(Parity{}, {"train", 32}), 1.0 / 2, 0.01);
  EXPECT_NEAR(chance(Parity{.modulo = 7}, {"longer", 64, 32, Split::kTest}), 1.0 / 7, 0.01);
  EXPECT_NEAR(chance(Navigation{}, {"train", 128}), 1.0 / 16, 0.01);
  EXPECT_NEAR(chance(IndirectIndexing{}, {"train", 45}), 1.0 / 52, 0.01);
  EXPECT_NEAR(chance(WordProblem{.group = WordProblem::Group::kS3}, {"train", 32}), 1.0 / 6, 0.01);
  EXPECT_NEAR(chance(WordProblem{.answer = Answer::kFinal}, {"longer", 32}), 1.0 / 120, 0.005);
  EXPECT_NEAR(chance(Chomsky{Chomsky::Kind::kReverse}, {"train", 32}), 1.0 / 2, 0.01);
  EXPECT_NEAR(chance(Chomsky{Chomsky::Kind::kMissingDuplicate}, {"train", 32}), 1.0 / 2, 0.02);
  EXPECT_NEAR(chance(NBack{}, {"sparse", 64}), 1.0 / 10, 0.01);
  EXPECT_NEAR(chance(IthWord{}, {"train", 64}), 1.0 / 26, 0.01);
  EXPECT_NEAR(chance(Mqar{.vocabulary = 64}, {"train", 64}), 1.0 / 32, 0.005);
}

TEST(Chance, OfAnErrorIsAnError) {
  EXPECT_NEAR(chance(FlipFlop{}, {"train", 512}), 0.5, 0.01);
  EXPECT_NEAR(chance(FlipFlop{}, {"sparse", 512}), 0.5, 0.02);
}

TEST(Chance, OfAWholeRowIsThatOfAllItsAnswers) {
  const double whole = chance(Passkey{.digits = 3}, {"train", 64});
  EXPECT_NEAR(whole, 1e-3, 3e-4);
  EXPECT_NEAR(chance(SelectiveCopy{.symbols = 4}, {"train", 6}), 1.0 - 1.0 / 16, 0.005);
}

TEST(Chance, OfSingleAnswersInsideARowIsTheirOwn) {
  const auto task = make_task(SelectiveCopy{.symbols = 4});
  const std::vector<Region> ranges = {{0, 6}, {0, 6, true}};
  const std::vector<double> chances = task->chances({"train", 6}, ranges);
  EXPECT_NEAR(chances[0], 1.0 - 1.0 / 16, 0.005);
  EXPECT_NEAR(chances[1], 1.0 - 1.0 / 4, 0.01);
}

// A constant answer is always right where there is one alone, and a position knows its own.
TEST(Chance, UsesThePositionWhereThatHelps) {
  const SelectiveCounting almost_all{.density = 0.999, .cap = 0};
  EXPECT_GT(chance(almost_all, {"train", 32}), 0.95);
}

TEST(TrainedShare, IsWholeWhereLabelsStayInTheTrainedRange) {
  const SelectiveCounting mixed{.labels = SelectiveCounting::Labels::kMixed, .modulo = 4};
  const auto whole = [](const TaskConfig& config, const Condition& condition) {
    return make_task(config)->trained_share(condition) == 1.0;
  };
  EXPECT_TRUE(whole(mixed, {"more", 128, 32, Split::kTest}));
  EXPECT_TRUE(whole(FlipFlop{}, {"sparse", 128, 64, Split::kTest}));
  EXPECT_TRUE(whole(NBack{}, {"sparse", 128, 64, Split::kTest}));
  EXPECT_TRUE(whole(CountingProgram{}, {"sparse", 512, 512, Split::kTest}));
}

// Short programs of many variables seldom count far; dense ones do.
TEST(TrainedShare, FallsWhereAnswersAreNewToTraining) {
  const CountingProgram config{.variables = 5, .max_operations = 12};
  EXPECT_LT(make_task(config)->trained_share({"dense", 128, 32, Split::kTest}), 1.0);
}

// One answer everywhere, another one on each axis and side of the split.
class OneAnswer final : public Task {
 public:
  explicit OneAnswer(Metric metric) {
    info_.name = "one_answer";
    info_.vocabulary = 16;
    info_.metric = metric;
  }
  [[nodiscard]] const TaskInfo& info() const override { return info_; }
  [[nodiscard]] std::vector<Axis> axes() const override { return {{"train"}, {"longer"}}; }
  void fill(const Condition& condition, std::uint64_t /*seed*/, std::uint64_t /*first_row*/,
            Batch& batch) const override {
    batch.length = condition.length;
    const auto size = static_cast<std::size_t>(batch.rows * batch.length);
    batch.tokens.assign(size, 0);
    batch.targets.assign(
        size, (condition.axis == "train" ? 3 : 5) + (condition.split == Split::kTrain ? 0 : 1));
  }
  [[nodiscard]] std::string token_text(std::int32_t token) const override {
    return std::to_string(token);
  }

 private:
  TaskInfo info_;
};

TEST(Chance, OfAnErrorThatAConstantAvoidsIsZero) {
  EXPECT_EQ(OneAnswer(Metric::kAccuracy).chance({"train", 8}), 1.0);
  EXPECT_EQ(OneAnswer(Metric::kError).chance({"train", 8}), 0.0);
}

TEST(TrainedShare, CountsAnswersOfTheTrainingStreamAlone) {
  const OneAnswer task(Metric::kAccuracy);
  EXPECT_EQ(task.trained_share({"train", 8, 8, Split::kTrain}), 1.0);
  EXPECT_EQ(task.trained_share({"train", 8, 8, Split::kTest}), 0.0)
      << "held-out rows train nothing";
  EXPECT_EQ(task.trained_share({"longer", 8, 8, Split::kTrain}), 0.0) << "nor does another axis";
}

// Rows of 1,000 answers. The first token says which of two questions a row asks: in training question
// 0 has the labels 1 (99.1 %), 2 (0.5 %) and 3 (0.4 %), question 1 only label 3. The other axis asks
// `tested_question` and has one label, `tested`.
class RareLabels final : public Task {
 public:
  RareLabels(std::int32_t tested_question, std::int32_t tested, Metric metric = Metric::kAccuracy)
      : tested_question_(tested_question), tested_(tested) {
    info_.vocabulary = 16;
    info_.metric = metric;
  }
  [[nodiscard]] const TaskInfo& info() const override { return info_; }
  [[nodiscard]] std::vector<Axis> axes() const override { return {{"train"}, {"longer"}}; }
  void fill(const Condition& condition, std::uint64_t /*seed*/, std::uint64_t first_row,
            Batch& batch) const override {
    batch.length = condition.length;
    const auto length = static_cast<std::size_t>(batch.length);
    batch.tokens.assign(static_cast<std::size_t>(batch.rows) * length, 0);
    batch.targets.assign(batch.tokens.size(), 1);
    for (std::size_t i = 0; i < batch.tokens.size(); ++i) {
      const bool train = condition.axis == "train";
      const auto question =
          train ? static_cast<std::int32_t>((first_row + i / length) % 2) : tested_question_;
      if (i % length == 0) batch.tokens[i] = question;
      batch.targets[i] = !train ? tested_ : question == 1 ? 3 : train_label(i % length);
    }
  }
  [[nodiscard]] std::int32_t operation(std::span<const std::int32_t> row) const override {
    return row[0];
  }
  [[nodiscard]] std::string token_text(std::int32_t token) const override {
    return std::to_string(token);
  }

 private:
  static std::int32_t train_label(std::size_t t) { return t < 5 ? 2 : t < 9 ? 3 : 1; }

  TaskInfo info_;
  std::int32_t tested_question_;
  std::int32_t tested_;
};

TEST(TrainedShare, NeedsHalfAPercentOfTheAnswersToTheSameQuestion) {
  const Condition condition{"longer", 1000, 1000, Split::kTest};
  const auto trained = [&](std::int32_t question, std::int32_t label) {
    return RareLabels(question, label).trained_share(condition);
  };
  EXPECT_EQ(trained(0, 1), 1.0);
  EXPECT_EQ(trained(0, 2), 1.0) << "0.5 % is enough";
  EXPECT_EQ(trained(0, 3), 0.0) << "0.4 % is not, although half of all answers are label 3";
  EXPECT_EQ(trained(1, 3), 1.0);
  EXPECT_EQ(trained(1, 1), 0.0) << "an answer to the other question alone";
  EXPECT_EQ(trained(2, 1), 0.0) << "a question that training never asks";
  EXPECT_EQ(RareLabels(0, 3, Metric::kBitsPerByte).trained_share(condition), 1.0);
}

// 4,096 equally likely values: none is 0.5 % of the answers, and all are trained (but for chance).
TEST(TrainedShare, IsWholeWhereManyLabelsAreEquallyLikely) {
  EXPECT_GT(make_task(Mqar{})->trained_share({"longer", 128, 64, Split::kTest}), 0.999);
}

}  // namespace
}  // namespace posenc::tasks
