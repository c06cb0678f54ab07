#include "report/evidence_verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "config/load.h"
#include "posenc/core/error.h"
#include "report/evidence.h"
#include "report/words.h"

namespace posenc::report {
namespace {

// What makes two entries the same experiment: every training field but encoding, seed and device. The config
// is read again, so that a field added since the older run has its default.
std::string experiment_key(const Run& run) {
  Value config = run.config;
  try {
    config = config::parse_config(to_yaml(run.config), run.path.string()).tree;
  } catch (const Error&) {
    config = run.config;  // of an older version: compared as it is written
  }
  std::string key = run.results->encoding + "\n";
  for (const auto& [name, value] : training_fields(config)) {
    if (name == "model.encoding" || name == "seed" || name == "train.device") continue;
    key += fmt::format("{}={}\n", name, value);
  }
  return key;
}

struct Row {
  std::string key;
  const TaskTable* table = nullptr;
  const Entry* entry = nullptr;
};

std::vector<Row> rows_of(const std::vector<Run>& runs, const Comparison& comparison) {
  std::vector<Row> rows;
  for (const TaskTable& table : comparison.tasks) {
    for (const Entry& entry : table.entries) {
      if (entry.paths.empty()) continue;
      const auto run = std::find_if(runs.begin(), runs.end(), [&](const Run& r) {
        return r.path.string() == entry.paths.front();
      });
      rows.push_back({experiment_key(*run), &table, &entry});
    }
  }
  return rows;
}

// Where the figure may lie: the interval, or with too few seeds on either side the range of the seeds.
statistics::Interval range_of(const RegionFigure& figure, bool by_interval) {
  if (by_interval) return *figure.interval;
  const auto [low, high] = std::minmax_element(figure.points.begin(), figure.points.end());
  statistics::Interval range{*low, *high};
  if (figure.interval) {
    range.low = std::min(range.low, figure.interval->low);
    range.high = std::max(range.high, figure.interval->high);
  }
  return range;
}

std::string verdict_words(const RegionFigure& here, const RegionFigure& there, Metric metric) {
  const bool intervals = here.interval && there.interval;
  const statistics::Interval a = range_of(here, intervals);
  const statistics::Interval b = range_of(there, intervals);
  if (a.low <= b.high && b.low <= a.high) {
    return intervals ? "agrees within the intervals" : "agrees within the seeds";
  }
  const MetricTraits traits = traits_of(metric);
  const double difference = traits.scale * std::abs(here.mean - there.mean);
  return fmt::format("differs by {:.{}f} {}", difference, traits.share ? 1 : 3, traits.unit);
}

// Only the schedule's own cells: up to the trained length the row without a schedule has the verdict.
void add_conditions(const Row& here, const Row& there, const std::string& schedule,
                    std::vector<Verdict>& all) {
  const Metric metric = there.table->metric;
  for (const TableCondition& c : conditions_of(*there.table)) {
    const Cell* ours = here.entry->cell(c.axis, c.factor, schedule);
    const Cell* theirs = there.entry->cell(c.axis, c.factor, schedule);
    if (theirs == nullptr || theirs->headline().points.empty()) continue;
    Verdict verdict{.row = row_name(*there.table, *there.entry, schedule),
                    .condition = condition_name(c),
                    .here = evidence_text(ours, metric),
                    .there = evidence_text(theirs, metric),
                    .words = "only there"};
    if (ours != nullptr && !ours->headline().points.empty() && here.table->metric == metric) {
      verdict.words = verdict_words(ours->headline(), theirs->headline(), metric);
    }
    all.push_back(std::move(verdict));
  }
}

Verdict one_sided(const Row& row, const char* words, const std::string& schedule = "") {
  return {.row = row_name(*row.table, *row.entry, schedule),
          .condition = "",
          .here = kNothing,
          .there = kNothing,
          .words = words};
}

void add_schedules(const Row& here, const Row& there, std::vector<Verdict>& all) {
  const std::vector<std::string> theirs = schedules_of(*there.entry);
  for (const std::string& schedule : theirs) add_conditions(here, there, schedule, all);
  for (const std::string& schedule : schedules_of(*here.entry)) {
    const bool shared = std::find(theirs.begin(), theirs.end(), schedule) != theirs.end();
    if (!shared) all.push_back(one_sided(here, "only here", schedule));
  }
}

}  // namespace

std::vector<Verdict> verdicts(const std::vector<Run>& here, const std::vector<Run>& there) {
  const Comparison ours = compare(here);
  const Comparison theirs = compare(there);
  const std::vector<Row> our_rows = rows_of(here, ours);
  const std::vector<Row> their_rows = rows_of(there, theirs);
  const auto find = [](const std::vector<Row>& rows, const std::string& key) {
    return std::find_if(rows.begin(), rows.end(), [&](const Row& row) { return row.key == key; });
  };
  std::vector<Verdict> all;
  for (const Row& row : their_rows) {
    const auto own = find(our_rows, row.key);
    if (own != our_rows.end()) {
      add_schedules(*own, row, all);
    } else {
      all.push_back(one_sided(row, "only there"));
    }
  }
  for (const Row& row : our_rows) {
    if (find(their_rows, row.key) == their_rows.end()) all.push_back(one_sided(row, "only here"));
  }
  return all;
}

}  // namespace posenc::report
