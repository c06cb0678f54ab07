#include "report/backed.h"

#include <fmt/format.h>

#include <algorithm>

#include "statistics/finding_words.h"

namespace posenc::report {
namespace {

using Conditions = std::vector<TestedCondition>;

std::optional<TestedRow> best_row(const statistics::TestedTable& tested,
                                  const Conditions& conditions, std::size_t c) {
  const auto best = tested.backed_best(c);
  return best ? std::optional(conditions[c].rows[*best]) : std::nullopt;
}

// Whether a condition allows the row to be called best beyond training.
bool allows(const statistics::TestedTable& tested, const TestedCondition& condition, std::size_t c,
            const TestedRow& row) {
  const TestedRow here{row.entry, condition.longer ? row.schedule : ""};
  const auto found = std::find(condition.rows.begin(), condition.rows.end(), here);
  if (found == condition.rows.end() || condition.rows.size() < condition.shown) return false;
  const auto own = static_cast<std::size_t>(found - condition.rows.begin());
  for (std::size_t other = 0; other < condition.rows.size(); ++other) {
    if (other != own && tested.ahead(c, other, own)) return false;
  }
  return true;
}

std::string support_text(const std::vector<std::string>& won,
                         const std::vector<std::string>& level) {
  std::string text = "ahead of every other encoding " + statistics::list_text(won);
  if (!level.empty()) text += "; nothing is ahead of it " + statistics::list_text(level);
  return text;
}

// Of the conditions of one variant and merit.
std::optional<BackedBest> best_of(const statistics::TestedTable& tested,
                                  const Conditions& conditions, std::size_t variant, Merit merit) {
  std::optional<TestedRow> best;
  std::vector<std::size_t> mine;
  for (std::size_t c = 0; c < conditions.size(); ++c) {
    if (conditions[c].variant != variant || conditions[c].merit != merit) continue;
    mine.push_back(c);
    if (!best) best = best_row(tested, conditions, c);
  }
  if (!best) return std::nullopt;
  std::vector<std::string> won;
  std::vector<std::string> level;
  for (const std::size_t c : mine) {
    if (!allows(tested, conditions[c], c, *best)) return std::nullopt;
    (best_row(tested, conditions, c) == best ? won : level).push_back(conditions[c].scores.place);
  }
  return BackedBest{merit, best->entry, best->schedule, support_text(won, level)};
}

}  // namespace

statistics::TestedTable test_conditions(const Conditions& conditions) {
  std::vector<statistics::ConditionScores> scores;
  for (const TestedCondition& condition : conditions) scores.push_back(condition.scores);
  return statistics::TestedTable(std::move(scores));
}

void add_backed(const statistics::TestedTable& tested, const Conditions& conditions,
                TaskTable& table) {
  for (std::size_t variant = 0; variant < table.variants.size(); ++variant) {
    for (const Merit merit : {Merit::kInDistribution, Merit::kBeyondTraining, Merit::kSpeed}) {
      if (const auto best = best_of(tested, conditions, variant, merit))
        table.best.push_back(*best);
    }
  }
}

}  // namespace posenc::report
