// What an evaluation counts, from answers that are known: a scripted task takes its targets from the
// model's own predictions, right at chosen positions and wrong at the others.
#include "train/evaluate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace posenc::train {
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
    return {{"train", "", true}, {"longer", "", false}, {"sparse", "", false, true}};
  }
  [[nodiscard]] std::optional<std::int64_t> rows(const tasks::Condition& /*c*/) const override {
    return available;
  }
  [[nodiscard]] std::vector<double> chances(const tasks::Condition& /*c*/,
                                            std::span<const tasks::Region> ranges) const override {
    std::vector<double> values;
    for (const tasks::Region& range : ranges) {
      values.push_back(static_cast<double>(range.begin) + static_cast<double>(range.end) / 100.0 +
                       (range.single ? 0.001 : 0.0));
    }
    return values;
  }
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
  [[nodiscard]] std::optional<std::uint32_t> cluster(const tasks::Condition& /*c*/,
                                                     std::uint64_t row) const override {
    if (documents == 0) return std::nullopt;
    return static_cast<std::uint32_t>(row % documents);
  }
  static std::int32_t token(std::int64_t row, std::int64_t t) {
    return static_cast<std::int32_t>((row * 5 + t * t * 3 + t) % kVocabulary);
  }

  at::Tensor predicted;  // [rows, length]
  Places wrong;
  Places unscored;
  std::int64_t available = 1000;
  std::uint32_t documents = 0;  // that rows belong to in turn; 0: none
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
    config::ModelConfig config;
    config.encoding = {"rope"};
    config.layers = 1;
    config.dim = 16;
    config.heads = 2;
    const model::ModelContext context{.vocabulary = kVocabulary, .train_length = 16, .seed = 5};
    model_ = model::Transformer(config, context);
    setting_.train_length = 8;
    setting_.config.samples = 6;
    setting_.config.free_running = 0;  // the script has six rows
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
    return *evaluate_row(model_, task, {"longer", length}, setting_);
  }
  model::Transformer model_{nullptr};
  EvalSetting setting_;
  at::Tensor log_likelihoods_;
};

const runs::PositionRange kRow16Beyond{8, 16};

TEST_F(Evaluation, TheHeadlineIsOverPositionsBeyondTheTrainedLength) {
  ScriptedTask task({.metric = Metric::kAccuracy});
  task.wrong = {{0, 0}, {0, 3}, {1, 7}, {2, 8}, {4, 14}, {5, 15}};
  task.unscored = {{1, 0}, {2, 9}, {5, 14}};
  const EvalRow row = evaluate(task, 16);
  EXPECT_EQ(row.samples, 6);
  EXPECT_EQ(row.axis, "longer");
  EXPECT_EQ(row.factor, 2.0);
  EXPECT_EQ(row.trained_share, 0.5);
  EXPECT_TRUE(row.beyond_training);
  const RegionScore& headline = row.region(runs::Region::kHeadline);
  EXPECT_EQ(headline.positions, kRow16Beyond);
  EXPECT_EQ(headline.tally.scored, 46);
  EXPECT_EQ(headline.tally.correct, 43);
  EXPECT_NEAR(row.headline().value, 43.0 / 46.0, 1e-12);
  EXPECT_EQ(headline.chance, 8.16) << "asked for these positions";
  EXPECT_EQ(score_of(row, Metric::kAccuracy), row.headline().value);
  const RegionScore& last = row.region(runs::Region::kLastEighth);
  EXPECT_EQ(last.positions, (runs::PositionRange{14, 16}));
  EXPECT_NEAR(last.estimate.value, 9.0 / 11.0, 1e-12);
  EXPECT_EQ(last.chance, 14.16);
  const RegionScore& all = row.region(runs::Region::kAll);
  EXPECT_NEAR(all.estimate.value, 87.0 / 93.0, 1e-12);
  EXPECT_EQ(all.chance, 0.16);
}

TEST_F(Evaluation, AtTheTrainedLengthTheHeadlineIsTheWholeRow) {
  ScriptedTask task({.metric = Metric::kAccuracy});
  task.wrong = {{0, 0}, {4, 7}};
  const EvalRow row = evaluate(task, 8);
  EXPECT_FALSE(row.beyond_training);
  EXPECT_NEAR(row.headline().value, 46.0 / 48.0, 1e-12);
  predict(task, setting_.config.samples, 8);
  EXPECT_TRUE(evaluate_row(model_, task, {"sparse", 8}, setting_)->beyond_training)
      << "rows of another kind, whatever their length";
}

// A class that is asked for at the first token has no answer beyond the trained length.
TEST_F(Evaluation, ARegionWithoutAnswersIsTheWholeRow) {
  ScriptedTask task({.metric = Metric::kAccuracy});
  for (std::int64_t r = 0; r < 6; ++r) {
    for (std::int64_t t = 1; t < 16; ++t) task.unscored.insert({r, t});
  }
  task.wrong = {{3, 0}};
  const EvalRow row = evaluate(task, 16);
  EXPECT_NEAR(row.headline().value, 5.0 / 6.0, 1e-12);
  EXPECT_EQ(row.region(runs::Region::kHeadline).positions, (runs::PositionRange{0, 16}));
}

TEST_F(Evaluation, AnErrorHasItsBoundsInOrder) {
  ScriptedTask task({.metric = Metric::kError});
  task.wrong = {{0, 8}, {0, 11}, {4, 15}, {1, 2}};
  const EvalRow row = evaluate(task, 16);
  EXPECT_NEAR(row.headline().value, 3.0 / 48.0, 1e-12);
  const std::vector<statistics::RowSum> rows = {{6, 8}, {8, 8}, {8, 8}, {8, 8}, {7, 8}, {8, 8}};
  const statistics::Estimate right = statistics::proportion_over_rows(rows);
  EXPECT_DOUBLE_EQ(row.headline().interval.low, 1.0 - right.interval.high);
  EXPECT_DOUBLE_EQ(row.headline().interval.high, 1.0 - right.interval.low);
  EXPECT_EQ(score_of(row, Metric::kError), -row.headline().value);
}

TEST_F(Evaluation, ARowMetricAsksForEveryPositionOfTheRegion) {
  ScriptedTask task({.metric = Metric::kAccuracy, .row_metric = true});
  task.wrong = {{0, 0}, {0, 3}, {4, 15}};
  const EvalRow row = evaluate(task, 16);
  EXPECT_NEAR(row.headline().value, 5.0 / 6.0, 1e-12) << "row 0 is right beyond the trained length";
  EXPECT_NEAR(row.region(runs::Region::kAll).estimate.value, 4.0 / 6.0, 1e-12);
  EXPECT_EQ(row.region(runs::Region::kAll).tally.correct, 93) << "positions are counted as before";
}

TEST_F(Evaluation, BitsPerByteAreTheLossOfTheTargets) {
  ScriptedTask task({.metric = Metric::kBitsPerByte});
  const EvalRow row = evaluate(task, 16);
  const at::Tensor losses = -std::get<0>(log_likelihoods_.max(-1));
  const auto bits = [&](std::int64_t from) {
    return losses.narrow(1, from, 16 - from).mean().item<double>() / std::log(2.0);
  };
  EXPECT_NEAR(row.headline().value, bits(8), 1e-5);
  EXPECT_NEAR(row.region(runs::Region::kAll).estimate.value, bits(0), 1e-5);
  EXPECT_LT(row.headline().interval.low, row.headline().value);
  EXPECT_GT(row.headline().interval.high, row.headline().value);
  EXPECT_TRUE(row.by_answer.empty());
}

// Rows of one document are one unit: six rows of two documents have the interval of two.
TEST_F(Evaluation, ClustersAreTheUnitsOfAnInterval) {
  ScriptedTask task({.metric = Metric::kBitsPerByte});
  const EvalRow apart = evaluate(task, 16);
  EXPECT_TRUE(apart.tallies.clusters.empty());
  task.documents = 2;
  const EvalRow together = evaluate(task, 16);
  EXPECT_EQ(together.tallies.clusters, (std::vector<std::uint32_t>{0, 1, 0, 1, 0, 1}));
  EXPECT_NEAR(together.headline().value, apart.headline().value, 1e-12);
  std::array<statistics::RowSum, 2> documents;
  for (std::size_t row = 0; row < 6; ++row) {
    const runs::Tally& tally = together.tallies.tallies(runs::Region::kHeadline)[row];
    documents[row % 2].total += static_cast<double>(tally.loss) / std::log(2.0);
    documents[row % 2].weight += tally.weight;
  }
  EXPECT_NEAR(together.headline().interval.low, statistics::mean_over_rows(documents).interval.low,
              1e-4);
}

TEST_F(Evaluation, RowsAreKeptForPairedComparisons) {
  ScriptedTask task({.metric = Metric::kAccuracy});
  task.wrong = {{0, 0}, {2, 8}, {4, 15}};
  const runs::ConditionTallies tallies = evaluate(task, 16).tallies;
  EXPECT_EQ(tallies.name, "longer 16");
  const auto& headline = tallies.tallies(runs::Region::kHeadline);
  const auto& all = tallies.tallies(runs::Region::kAll);
  ASSERT_EQ(headline.size(), 6U);
  for (std::size_t r = 0; r < 6; ++r) {
    EXPECT_EQ(headline[r].weight, 8U);
    EXPECT_EQ(headline[r].correct, r == 2 || r == 4 ? 7U : 8U) << r;
    EXPECT_EQ(all[r].correct, r % 2 == 0 ? 15U : 16U) << r;
  }
}

// The trained length is an edge, and each position is in one bucket.
TEST_F(Evaluation, BucketsOfPositionsDoNotMixInsideAndBeyond) {
  ScriptedTask task({.metric = Metric::kAccuracy});
  for (std::int64_t r = 0; r < 6; ++r) task.wrong.insert({r, 8});
  for (const std::int64_t length : {std::int64_t{16}, std::int64_t{11}, std::int64_t{40}}) {
    const EvalRow row = evaluate(task, length);
    std::int64_t next = 0;
    for (const PositionBucket& bucket : row.by_position) {
      const auto [begin, end] = bucket.positions;
      EXPECT_EQ(begin, next);
      EXPECT_TRUE(end <= 8 || begin >= 8) << begin << " to " << end;
      EXPECT_EQ(bucket.tally.scored, 6 * (end - begin));
      EXPECT_EQ(bucket.tally.scored - bucket.tally.correct, begin <= 8 && 8 < end ? 6 : 0);
      EXPECT_EQ(bucket.chance,
                static_cast<double>(begin) + static_cast<double>(end) / 100.0 + 0.001)
          << "of single answers";
      next = end;
    }
    EXPECT_EQ(next, length);
  }
}

// A figure on samples of the training stream would measure memory.
TEST_F(Evaluation, SamplesAreHeldOutAndDrawnFromTheEvaluationsSeed) {
  ScriptedTask task({.metric = Metric::kAccuracy});
  setting_.config.tokens_per_batch = 70;  // four rows of 16
  evaluate(task, 16);
  ASSERT_EQ(task.asked.size(), 2U);
  for (const ScriptedTask::Asked& asked : task.asked) {
    EXPECT_EQ(asked.condition.split, tasks::Split::kTest);
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
  ScriptedTask task({.metric = Metric::kAccuracy});
  task.available = 5;
  EXPECT_EQ(evaluate(task, 16).samples, 5);
  setting_.longest = 16;
  EXPECT_TRUE(evaluate(task, 16).skipped.empty());
  const EvalRow skipped = evaluate(task, 17);
  EXPECT_NE(skipped.skipped.find("16"), std::string::npos);
  EXPECT_EQ(skipped.length, 17);
}

TEST_F(Evaluation, AnswersAreTalliedByTheTarget) {
  ScriptedTask task({.metric = Metric::kAccuracy});
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
  const ScriptedTask task({.metric = Metric::kAccuracy});
  setting_.config.factors = {1, 3};
  EXPECT_EQ(lengths_of(task, "train", setting_), (std::vector<std::int64_t>{8}));
  EXPECT_EQ(lengths_of(task, "longer", setting_), (std::vector<std::int64_t>{8, 24}));
  setting_.config.lengths = {10, 20};
  EXPECT_EQ(lengths_of(task, "longer", setting_), (std::vector<std::int64_t>{10, 20}));
}

TEST_F(Evaluation, ConditionsTakeThePlaceOfAxesTimesLengths) {
  const ScriptedTask task({.metric = Metric::kAccuracy});
  setting_.config.conditions = {{"sparse", 40}, {"longer", 12}, {"sparse", 0}, {"longer", 12}};
  const std::vector<EvalCase> wanted = {
      {"train", 8}, {"sparse", 40}, {"longer", 12}, {"sparse", 8}};
  EXPECT_EQ(eval_cases(task, setting_), wanted);
  setting_.config.conditions = {{"denser", 40}};
  EXPECT_THROW(eval_cases(task, setting_), Error);
}

}  // namespace
}  // namespace posenc::train
