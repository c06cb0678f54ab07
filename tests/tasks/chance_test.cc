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
  EXPECT_NEAR(chance(Parity{.modulo = 7}, {"longer", 64, 32, true}), 1.0 / 7, 0.01);
  EXPECT_NEAR(chance(SelectiveCopy{}, {"train", 60}), 1.0 / 16, 0.005);
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
  EXPECT_TRUE(whole(mixed, {"more", 128, 32, true}));
  EXPECT_TRUE(whole(FlipFlop{}, {"sparse", 128, 64, true}));
  EXPECT_TRUE(whole(NBack{}, {"sparse", 128, 64, true}));
  EXPECT_TRUE(whole(CountingProgram{}, {"sparse", 512, 512, true}));
}

// Short programs of many variables seldom count far; dense ones do.
TEST(TrainedShare, FallsWhereAnswersAreNewToTraining) {
  const CountingProgram config{.variables = 5, .max_operations = 12};
  EXPECT_LT(make_task(config)->trained_share({"dense", 128, 32, true}), 1.0);
}

// One answer everywhere, another one on each axis and side of the split.
class OneAnswer final : public Task {
 public:
  explicit OneAnswer(std::string metric) {
    info_.name = "one_answer";
    info_.vocabulary = 16;
    info_.metric = std::move(metric);
  }
  [[nodiscard]] const TaskInfo& info() const override { return info_; }
  [[nodiscard]] std::vector<Axis> axes() const override { return {{"train"}, {"longer"}}; }
  void fill(const Condition& condition, std::uint64_t /*seed*/, std::uint64_t /*first_row*/,
            Batch& batch) const override {
    batch.length = condition.length;
    const auto size = static_cast<std::size_t>(batch.rows * batch.length);
    batch.tokens.assign(size, 0);
    batch.targets.assign(size, (condition.axis == "train" ? 3 : 5) + (condition.held_out ? 1 : 0));
  }
  [[nodiscard]] std::string token_text(std::int32_t token) const override {
    return std::to_string(token);
  }

 private:
  TaskInfo info_;
};

TEST(Chance, OfAnErrorThatAConstantAvoidsIsZero) {
  EXPECT_EQ(OneAnswer("accuracy").chance({"train", 8}), 1.0);
  EXPECT_EQ(OneAnswer("error").chance({"train", 8}), 0.0);
}

TEST(TrainedShare, CountsAnswersOfTheTrainingStreamAlone) {
  const OneAnswer task("accuracy");
  EXPECT_EQ(task.trained_share({"train", 8, 8, false}), 1.0);
  EXPECT_EQ(task.trained_share({"train", 8, 8, true}), 0.0) << "held-out rows train nothing";
  EXPECT_EQ(task.trained_share({"longer", 8, 8, false}), 0.0) << "nor does another axis";
}

}  // namespace
}  // namespace posenc::tasks
