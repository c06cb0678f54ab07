// A perfect solver, which shares no code with the generators, answers every row of every protocol: what a model gets
// wrong there is the model's fault.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "config/load.h"
#include "sweep/protocols.h"
#include "tasks/solvers.h"

namespace posenc::sweep {
namespace {

using tasks::Batch;
using tasks::Condition;
using tasks::Solution;
using tasks::Solver;
using tasks::Words;

// The answer stands in the row where it is scored, after <query>.
Solution solve_leaking_count(const Words& words) {
  if (words.size() < 2 || words[words.size() - 2] != "<query>") return {};
  return {true, false, words.back()};
}

struct SolverOf {
  std::string axis;

  Solver operator()(const tasks::SelectiveCounting& config) const {
    if (config.leak) return solve_leaking_count;
    return tasks::counting_solver(config.answer == tasks::Answer::kRunning, config.modulo);
  }
  Solver operator()(const tasks::FlipFlop& /*config*/) const { return tasks::solve_flip_flop; }
  Solver operator()(const tasks::SelectiveCopy& /*config*/) const { return tasks::solve_copy; }
  Solver operator()(const tasks::CountingProgram& /*config*/) const { return tasks::solve_program; }
  Solver operator()(const tasks::Mqar& config) const {
    return tasks::mqar_solver(static_cast<std::size_t>(config.pairs));
  }
  Solver operator()(const tasks::Navigation& config) const {
    const std::int64_t side = axis == "dense"    ? config.dense_grid
                              : axis == "sparse" ? config.sparse_grid
                                                 : config.grid;
    return tasks::navigation_solver(static_cast<int>(side));
  }
  // Text has no solver.
  template <class Config>
  Solver operator()(const Config& /*config*/) const {
    return {};
  }
};

struct Tally {
  std::int64_t scored = 0;
  std::int64_t right = 0;
  std::int64_t lost = 0;
};

Tally solve_rows(const tasks::Task& task, const Solver& solve, const Condition& condition,
                 std::int64_t rows) {
  const Batch batch = tasks::make_batch(task, condition, 1000003, 0, rows);
  Tally tally;
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    Words words = tasks::row_words(task, batch, row);
    for (std::int64_t t = batch.length; t-- > 0; words.pop_back()) {
      const std::int32_t target = batch.targets[tasks::place(batch, row, t)];
      if (target == tasks::kUnscored) continue;
      const Solution solution = solve(words);
      ++tally.scored;
      tally.lost += solution.lost ? 1 : 0;
      tally.right += solution.asked && solution.answer == task.token_text(target) ? 1 : 0;
    }
  }
  return tally;
}

// In domain, then what the config evaluates.
std::vector<Condition> conditions_of(const config::LabConfig& config, const tasks::Task& task) {
  const std::int64_t trained = train_length(config.train);
  std::vector<Condition> conditions = {{"train", trained, trained, tasks::Split::kTest}};
  for (const config::EvalCondition& c : config.eval.conditions) {
    const std::int64_t length = c.length > 0 ? c.length : task.natural_length(c.axis, trained);
    conditions.push_back({c.axis, length, trained, tasks::Split::kTest});
  }
  return conditions;
}

// `visit(config)` once for every task and evaluation that the protocols have.
template <class Visit>
void for_every_experiment(Visit visit) {
  std::set<std::string> seen;
  for (const std::string& path : testing::protocols()) {
    for (const testing::ProtocolPart& part : testing::protocol_parts(path)) {
      for (const auto& point : part.sweep.points) {
        config::LabConfig config = config::load_config(part.sweep.base, point).config;
        const Value tree = config::resolved_tree(config);
        const std::string key = to_json(*tree.find("task")) +
                                std::to_string(train_length(config.train)) +
                                to_json(*tree.find("eval")->find("conditions"));
        if (!seen.insert(key).second) continue;
        SCOPED_TRACE(part.page + ", part " + part.name);
        visit(config);
      }
    }
  }
  EXPECT_GE(seen.size(), 14U);
}

TEST(ProtocolSamples, APerfectSolverIsRightOnEveryCondition) {
  for_every_experiment([](const config::LabConfig& config) {
    if (std::holds_alternative<tasks::LanguageModel>(config.task)) return;
    const auto task = tasks::make_task(config.task);
    const bool may_lose = std::holds_alternative<tasks::CountingProgram>(config.task);
    for (const Condition& condition : conditions_of(config, *task)) {
      SCOPED_TRACE(condition.axis + " at " + std::to_string(condition.length));
      const Solver solve = std::visit(SolverOf{condition.axis}, config.task);
      const Tally tally = solve_rows(*task, solve, condition, may_lose ? 4000 : 3);
      EXPECT_GT(tally.scored, 0);
      EXPECT_EQ(tally.right + tally.lost, tally.scored);
      // A program that was cut may have lost what its answer depends on: the published task has it so.
      EXPECT_LT(tally.lost, may_lose ? tally.scored / 200 : 1);
    }
  });
}

// Axis beyond asks for labels that training never gives, and says so; no other condition may.
TEST(ProtocolSamples, LabelsAreTrainedWhereverTheProtocolSaysSo) {
  for_every_experiment([](const config::LabConfig& config) {
    if (std::holds_alternative<tasks::LanguageModel>(config.task)) return;
    const auto task = tasks::make_task(config.task);
    for (const Condition& condition : conditions_of(config, *task)) {
      const double trained = task->trained_share(condition);
      if (condition.axis == "beyond") {
        EXPECT_LT(trained, 0.5) << condition.length;
      } else {
        EXPECT_GT(trained, 0.85) << condition.axis << " at " << condition.length;
      }
    }
  });
}

}  // namespace
}  // namespace posenc::sweep
