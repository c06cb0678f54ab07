#include "report/tested.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "posenc/core/error.h"
#include "report/backed.h"
#include "report/words.h"
#include "statistics/finding_words.h"

namespace posenc::report {
namespace {

// The rows of a run in a condition under a schedule; nothing where the run was not scored so.
const runs::ConditionTallies* tallies_at(const Run& run, const Cell& cell,
                                         const std::string& schedule) {
  const auto scored =
      std::any_of(run.results->rows.begin(), run.results->rows.end(), [&](const ResultRow& row) {
        return row.axis == cell.axis && row.length == cell.length && row.skipped.empty() &&
               row.schedule == schedule;
      });
  if (!run.scores || !scored) return nullptr;
  const std::string name = runs::condition_name(cell.axis, cell.length, schedule);
  const auto& all = run.scores->conditions;
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const runs::ConditionTallies& c) { return c.name == name; });
  return found == all.end() ? nullptr : &*found;
}

std::vector<statistics::RowSum> headline_rows(const runs::ConditionTallies& tallies,
                                              const TaskTable& table) {
  const auto& rows = tallies.tallies(runs::Region::kHeadline);
  return table.row_metric ? runs::whole_row_sums(rows, table.metric)
                          : runs::row_sums(rows, table.metric);
}

// A language model that does not use its context says nothing about length.
bool says_nothing(const Entry& entry, const Cell& cell) {
  return entry.used_positions && cell.factor > 1.0;
}

void add_row(const SeedGroup& group, const Cell& cell, const TaskTable& table, const TestedRow& row,
             TestedCondition& condition) {
  if (says_nothing(table.entries[row.entry], cell)) return;
  statistics::EncodingScores scores{.encoding = name_in_sentence(group.encoding, row.schedule),
                                    .runs = {},
                                    .same_runs = !row.schedule.empty()};
  for (const auto& [seed, run] : group.runs) {
    const runs::ConditionTallies* tallies = tallies_at(*run, cell, row.schedule);
    if (tallies == nullptr) continue;
    condition.scores.clusters = tallies->clusters;
    scores.runs.push_back({.seed = seed, .rows = headline_rows(*tallies, table)});
  }
  if (scores.runs.empty() && !group.runs.empty()) return;
  for (const auto& [seed, run] : group.failed) {
    scores.runs.push_back({.seed = seed, .rows = {}, .failed = true});
  }
  condition.scores.encodings.push_back(std::move(scores));
  condition.rows.push_back(row);
}

// The model's own schedule and those that it was evaluated under here.
void add_rows(const SeedGroup& group, const Cell& cell, const TaskTable& table, std::size_t entry,
              TestedCondition& condition) {
  const Entry& e = table.entries[entry];
  for (const std::string& schedule : schedules_of(e)) {
    const bool shown = e.cell(cell.axis, cell.factor, schedule) != nullptr;
    const bool all_failed = e.seeds.empty() && schedule.empty();
    if (!schedule.empty() && !shown) continue;
    if (shown || all_failed) ++condition.shown;
    add_row(group, cell, table, {entry, schedule}, condition);
  }
}

std::vector<std::size_t> entries_of(const TaskTable& table, std::size_t variant) {
  std::vector<std::size_t> entries;
  for (std::size_t e = 0; e < table.entries.size(); ++e) {
    if (table.entries[e].variant == variant) entries.push_back(e);
  }
  return entries;
}

TestedCondition make_condition(const TaskGroup& group, const TaskTable& table, std::size_t variant,
                               const Cell& cell) {
  TestedCondition condition{
      .variant = variant,
      .merit = cell.beyond_training ? Merit::kBeyondTraining : Merit::kInDistribution,
      .longer = cell.factor > 1.0};
  const std::string& name = table.variants[variant].name;
  condition.scores.place =
      place_text(table, cell) + (name.empty() ? "" : fmt::format(" (variant {})", name));
  condition.scores.metric = table.metric;
  for (const std::size_t entry : entries_of(table, variant)) {
    add_rows(seeds_of(group, table.entries[entry]), cell, table, entry, condition);
  }
  return condition;
}

// In domain and beyond training, each once, with two rows or more.
std::vector<TestedCondition> conditions_of(const TaskGroup& group, const TaskTable& table,
                                           std::size_t variant) {
  std::vector<TestedCondition> conditions;
  std::map<std::pair<std::string, double>, bool> seen;
  for (const std::size_t entry : entries_of(table, variant)) {
    for (const Cell& cell : table.entries[entry].cells) {
      const bool asks = cell.beyond_training || (cell.axis == kInDomain && cell.factor == 1.0);
      if (cell.n == 0 || !cell.schedule.empty() || !asks) continue;
      if (!seen.emplace(std::pair(cell.axis, cell.factor), true).second) continue;
      TestedCondition condition = make_condition(group, table, variant, cell);
      if (condition.rows.size() > 1) conditions.push_back(std::move(condition));
    }
  }
  return conditions;
}

// Speeds are compared where every entry has enough of them, all from one kind of machine.
std::optional<TestedCondition> speed_condition(const TaskGroup& group, const TaskTable& table,
                                               std::size_t variant) {
  TestedCondition condition{.variant = variant, .merit = Merit::kSpeed};
  const std::string& name = table.variants[variant].name;
  condition.scores.place =
      "in training speed" + (name.empty() ? "" : fmt::format(" (variant {})", name));
  condition.scores.metric = Metric::kTokensPerSecond;
  std::string machine;
  for (const std::size_t entry : entries_of(table, variant)) {
    const SeedGroup& seeds = seeds_of(group, table.entries[entry]);
    if (seeds.runs.size() < statistics::kFewestSeeds) return std::nullopt;
    if (machine.empty()) machine = seeds.runs.begin()->second->machine;
    statistics::EncodingScores scores{.encoding = seeds.encoding, .runs = {}};
    for (const auto& [seed, run] : seeds.runs) {
      const double speed = run->results->tokens_per_s;
      if (run->machine != machine || !(speed > 0.0)) return std::nullopt;
      scores.runs.push_back({.seed = seed, .rows = {{speed, 1.0}}});
    }
    condition.scores.encodings.push_back(std::move(scores));
    condition.rows.push_back({entry, ""});
  }
  condition.shown = condition.rows.size();
  return condition.shown < 2 ? std::nullopt : std::optional(condition);
}

void note_scores(const TaskGroup& group, TaskTable& table) {
  for (std::size_t e = 0; e < table.entries.size(); ++e) {
    std::map<std::string, std::vector<std::int64_t>> seeds;
    for (const auto& [seed, run] : seeds_of(group, table.entries[e]).runs) {
      if (!run->scores) seeds[run->scores_remark].push_back(seed);
    }
    for (const auto& [why, of] : seeds) {
      table.notes.push_back(
          fmt::format("no finding is made with seed {} of {}: it {}; evaluate it again with posenc "
                      "eval",
                      fmt::join(of, ", "), table.entries[e].encoding, why));
    }
  }
}

void test_scores(const TaskGroup& group, TaskTable& table) {
  std::vector<TestedCondition> conditions;
  for (std::size_t variant = 0; variant < table.variants.size(); ++variant) {
    for (TestedCondition& c : conditions_of(group, table, variant)) {
      conditions.push_back(std::move(c));
    }
  }
  if (conditions.empty()) return;
  const statistics::TestedTable tested = test_conditions(conditions);
  table.findings = statistics::findings(tested);
  add_backed(tested, conditions, table);
}

void test_speeds(const TaskGroup& group, TaskTable& table) {
  for (std::size_t variant = 0; variant < table.variants.size(); ++variant) {
    const auto condition = speed_condition(group, table, variant);
    if (!condition) continue;
    std::vector<const Entry*> entries;
    for (const TestedRow& row : condition->rows) entries.push_back(&table.entries[row.entry]);
    if (note_sharing(group, entries, table)) continue;
    const statistics::TestedTable tested = test_conditions({*condition});
    for (const statistics::Finding& finding : statistics::findings(tested)) {
      if (!finding.place.empty()) table.findings.push_back(finding);
    }
    add_backed(tested, {*condition}, table);
  }
}

}  // namespace

std::string place_text(const TaskTable& table, const Cell& cell) {
  if (cell.axis == kInDomain) return "in domain";
  if (cell.factor == 1.0 && cell.beyond_training) return "on " + cell.axis;
  const std::string length = fmt::format("at {:.3g}x", cell.factor);
  return table.axes.size() == 1 ? length : fmt::format("on {} {}", cell.axis, length);
}

void add_findings(const TaskGroup& group, TaskTable& table) {
  note_scores(group, table);
  try {
    test_scores(group, table);
    test_speeds(group, table);
  } catch (const Error& e) {
    // Runs of one evaluation hash with other rows: a corpus that changed between them.
    table.notes.push_back(fmt::format("no findings: {}", e.what()));
  }
}

}  // namespace posenc::report
