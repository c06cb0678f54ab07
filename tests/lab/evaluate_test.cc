// What an evaluation counts, from answers that are known: a scripted task takes its targets from the
// model's own predictions, right at chosen positions and wrong at the others.
#include "lab/evaluate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace posenc::lab {
namespace {

constexpr std::int32_t kVocabulary = 7;
using Places = std::set<std::pair<std::int64_t, std::int64_t>>;  // (row, position)

class ScriptedTask final : public tasks::Task {
 public:
  struct Asked {
    tasks::Condition condition;
    std::uint64_t seed = 0;
    std::uint64_t first_row = 0;
    std::int64_t rows = 0;
  };

  explicit ScriptedTask(tasks::TaskInfo info) : info_(std::move(info)) {
    info_.name = "scripted";
    info_.vocabulary = kVocabulary;
  }
  [[nodiscard]] const tasks::TaskInfo& info() const override { return info_; }
  [[nodiscard]] std::vector<tasks::Axis> axes() const override {
    return {{"train", "", true}, {"longer", "", false}};
  }
  [[nodiscard]] std::optional<std::int64_t> rows(const tasks::Condition& /*c*/) const override {
    return available;
  }
  [[nodiscard]] double chance(const tasks::Condition& /*c*/) const override { return 0.25; }
  [[nodiscard]] double trained_share(const tasks::Condition& /*c*/) const override { return 0.5; }
  [[nodiscard]] std::string token_text(std::int32_t token) const override {
    return std::to_string(token);
  }
  void fill(const tasks::Condition& condition, std::uint64_t seed, std::uint64_t first_row,
            tasks::Batch& batch) const override {
    asked.push_back({condition, seed, first_row, batch.rows});
    batch.length = condition.length;
    for (std::int64_t r = 0; r < batch.rows; ++r) {
      const auto row = static_cast<std::int64_t>(first_row) + r;
      for (std::int64_t t = 0; t < batch.length; ++t) {
        batch.tokens.push_back(token(row, t));
        batch.targets.push_back(target(row, t));
      }
    }
  }
  static std::int32_t token(std::int64_t row, std::int64_t t) {
    return static_cast<std::int32_t>((row * 5 + t * t * 3 + t) % kVocabulary);
  }

  at::Tensor predicted;  // [rows, length]
  Places wrong;
  Places unscored;
  std::int64_t available = 1000;
  mutable std::vector<Asked> asked;

 private:
  [[nodiscard]] std::int32_t target(std::int64_t row, std::int64_t t) const {
    if (unscored.contains({row, t})) return tasks::kUnscored;
    const auto right = static_cast<std::int32_t>(predicted[row][t].item<std::int64_t>());
    return wrong.contains({row, t}) ? (right + 1) % kVocabulary : right;
  }
  tasks::TaskInfo info_;
};

class Evaluation : public ::testing::Test {
 protected:
  Evaluation() {
    experiment::ModelConfig config;
    config.encoding = {"rope"};
    config.layers = 1;
    config.dim = 16;
    config.heads = 2;
    const model::ModelContext context{.vocabulary = kVocabulary, .train_length = 16, .seed = 5};
    model_ = model::Transformer(config, context);
    setting_.train_length = 8;
    setting_.config.samples = 6;
    setting_.config.seed = 77;
  }
  void predict(ScriptedTask& task, std::int64_t rows, std::int64_t length) {
    const at::NoGradGuard quiet;
    at::Tensor tokens = at::empty({rows, length}, at::kLong);
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t t = 0; t < length; ++t) tokens[r][t] = ScriptedTask::token(r, t);
    }
    model_->eval();
    log_likelihoods_ = model_->forward(tokens).log_softmax(-1);
    task.predicted = log_likelihoods_.argmax(-1);
  }
  EvalRow evaluate(ScriptedTask& task, std::int64_t length) {
    predict(task, setting_.config.samples, length);
    return *evaluate_row(model_, task, "longer", length, setting_);
  }
  model::Transformer model_{nullptr};
  EvalSetting setting_;
  at::Tensor log_likelihoods_;
};

TEST_F(Evaluation, AccuracyIsTheShareOfScoredPositions) {
  ScriptedTask task({.metric = "accuracy"});
  task.wrong = {{0, 0}, {0, 3}, {4, 15}};
  task.unscored = {{1, 0}, {2, 0}, {5, 15}};
  const EvalRow row = evaluate(task, 16);
  EXPECT_EQ(row.samples, 6);
  EXPECT_EQ(row.all.scored, 93);
  EXPECT_EQ(row.all.correct, 90);
  EXPECT_NEAR(row.estimate.value, 90.0 / 93.0, 1e-12);
  EXPECT_EQ(row.axis, "longer");
  EXPECT_EQ(row.factor, 2.0);
  EXPECT_EQ(row.chance, 0.25);
  EXPECT_EQ(row.trained_share, 0.5);
  EXPECT_EQ(score_of(row, "accuracy"), row.estimate.value);
}

TEST_F(Evaluation, AnErrorHasItsBoundsInOrder) {
  ScriptedTask task({.metric = "error"});
  task.wrong = {{0, 0}, {0, 3}, {4, 15}};
  const EvalRow row = evaluate(task, 16);
  EXPECT_NEAR(row.estimate.value, 3.0 / 96.0, 1e-12);
  EXPECT_LT(row.estimate.interval.low, row.estimate.value);
  EXPECT_GT(row.estimate.interval.high, row.estimate.value);
  const std::vector<runs::RowSum> rows = {{14, 16}, {16, 16}, {16, 16},
                                          {16, 16}, {15, 16}, {16, 16}};
  const runs::Estimate right = runs::proportion_over_rows(rows);
  EXPECT_DOUBLE_EQ(row.estimate.interval.low, 1.0 - right.interval.high);
  EXPECT_DOUBLE_EQ(row.estimate.interval.high, 1.0 - right.interval.low);
  EXPECT_EQ(score_of(row, "error"), -row.estimate.value);
}

TEST_F(Evaluation, ARowMetricAsksForEveryPositionOfARow) {
  ScriptedTask task({.metric = "accuracy", .row_metric = true});
  task.wrong = {{0, 0}, {0, 3}, {4, 15}};
  const EvalRow row = evaluate(task, 16);
  EXPECT_NEAR(row.estimate.value, 4.0 / 6.0, 1e-12);
  EXPECT_EQ(row.all.correct, 93) << "positions are counted as before";
}

TEST_F(Evaluation, BitsPerByteAreTheLossOfTheTargets) {
  ScriptedTask task({.metric = "bits_per_byte"});
  const EvalRow row = evaluate(task, 16);
  const auto nats = -std::get<0>(log_likelihoods_.max(-1)).mean().item<double>();
  EXPECT_NEAR(row.estimate.value, nats / std::log(2.0), 1e-5);
  EXPECT_LT(row.estimate.interval.low, row.estimate.value);
  EXPECT_GT(row.estimate.interval.high, row.estimate.value);
  EXPECT_TRUE(row.by_answer.empty());
}

// The last position of a bucket is in it, and each position is in one bucket.
TEST_F(Evaluation, BucketsOfPositionsIncludeBothEnds) {
  ScriptedTask task({.metric = "accuracy"});
  for (std::int64_t r = 0; r < 6; ++r) {
    task.wrong.insert({r, 1});
    task.wrong.insert({r, 15});
  }
  const EvalRow row = evaluate(task, 16);
  ASSERT_EQ(row.by_position.size(), 8U);
  for (std::size_t b = 0; b < 8; ++b) {
    EXPECT_EQ(row.by_position[b].from, static_cast<std::int64_t>(2 * b));
    EXPECT_EQ(row.by_position[b].to, static_cast<std::int64_t>(2 * b + 1));
    EXPECT_EQ(row.by_position[b].tally.scored, 12) << b;
    EXPECT_EQ(row.by_position[b].tally.correct, b == 0 || b == 7 ? 6 : 12) << b;
  }
  const EvalRow uneven = evaluate(task, 11);
  std::int64_t next = 0;
  for (const PositionBucket& bucket : uneven.by_position) {
    EXPECT_EQ(bucket.from, next);
    EXPECT_EQ(bucket.tally.scored, 6 * (bucket.to - bucket.from + 1));
    next = bucket.to + 1;
  }
  EXPECT_EQ(next, 11);
  EXPECT_EQ(evaluate(task, 3).by_position.size(), 3U);
}

// A figure on samples of the training stream would measure memory.
TEST_F(Evaluation, SamplesAreHeldOutAndDrawnFromTheEvaluationsSeed) {
  ScriptedTask task({.metric = "accuracy"});
  setting_.config.tokens_per_batch = 70;  // four rows of 16
  evaluate(task, 16);
  ASSERT_EQ(task.asked.size(), 2U);
  for (const ScriptedTask::Asked& asked : task.asked) {
    EXPECT_TRUE(asked.condition.held_out);
    EXPECT_EQ(asked.condition.axis, "longer");
    EXPECT_EQ(asked.condition.length, 16);
    EXPECT_EQ(asked.condition.train_length, 8);
    EXPECT_EQ(asked.seed, 77U);
  }
  EXPECT_EQ(task.asked[0].rows, 4);
  EXPECT_EQ(task.asked[1].first_row, 4U);
  EXPECT_EQ(task.asked[1].rows, 2);
}

TEST_F(Evaluation, EndsWithTheCorpusAndWithTheTableOfPositions) {
  ScriptedTask task({.metric = "accuracy"});
  task.available = 5;
  EXPECT_EQ(evaluate(task, 16).samples, 5);
  setting_.longest = 16;
  EXPECT_TRUE(evaluate(task, 16).skipped.empty());
  const EvalRow skipped = evaluate(task, 17);
  EXPECT_NE(skipped.skipped.find("16"), std::string::npos);
  EXPECT_EQ(skipped.length, 17);
}

TEST_F(Evaluation, AnswersAreTalliedByTheTarget) {
  ScriptedTask task({.metric = "accuracy"});
  task.wrong = {{2, 5}};
  const EvalRow row = evaluate(task, 16);
  const std::int64_t wanted = (task.predicted[2][5].item<std::int64_t>() + 1) % kVocabulary;
  std::int64_t scored = 0;
  for (const auto& [answer, tally] : row.by_answer) {
    scored += tally.scored;
    EXPECT_EQ(tally.scored - tally.correct, answer == std::to_string(wanted) ? 1 : 0) << answer;
  }
  EXPECT_EQ(scored, 96);
}

// The lengths that an axis is evaluated at.
std::vector<std::int64_t> lengths_of(const tasks::Task& task, const std::string& axis,
                                     const EvalSetting& setting) {
  std::vector<std::int64_t> lengths;
  for (const EvalCase& c : eval_cases(task, setting)) {
    if (c.axis == axis) lengths.push_back(c.length);
  }
  return lengths;
}

TEST_F(Evaluation, TheTrainAxisHasTheTrainingLengthAlone) {
  const ScriptedTask task({.metric = "accuracy"});
  setting_.config.factors = {1, 3};
  EXPECT_EQ(lengths_of(task, "train", setting_), (std::vector<std::int64_t>{8}));
  EXPECT_EQ(lengths_of(task, "longer", setting_), (std::vector<std::int64_t>{8, 24}));
  setting_.config.lengths = {10, 20};
  EXPECT_EQ(lengths_of(task, "longer", setting_), (std::vector<std::int64_t>{10, 20}));
}

}  // namespace
}  // namespace posenc::lab
