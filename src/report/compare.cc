#include "report/compare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>

#include "report/group.h"

namespace posenc::report {
namespace {

using Place = std::tuple<std::string, std::int64_t, std::string>;  // axis, length, schedule

Place place_of(const ResultRow& row) { return {row.axis, row.length, row.schedule}; }

const ResultRow* find_row(const Results& results, const Place& place) {
  const auto found = std::find_if(results.rows.begin(), results.rows.end(),
                                  [&](const ResultRow& row) { return place_of(row) == place; });
  return found == results.rows.end() ? nullptr : &*found;
}

template <class T>
void add_once(std::vector<T>& list, const T& item) {
  if (std::find(list.begin(), list.end(), item) == list.end()) list.push_back(item);
}

double mean(const std::vector<double>& values) { return runs::mean_over_seeds(values).value; }

runs::Interval bounds_of(const std::string& metric) {
  return {0.0, metric == "bits_per_byte" ? std::numeric_limits<double>::infinity() : 1.0};
}

// Seeds that have the figure are averaged; the number of them goes with it.
Cell make_cell(const SeedGroup& group, const ResultRow& first) {
  Cell cell{.axis = first.axis,
            .factor = first.factor,
            .length = first.length,
            .schedule = first.schedule,
            .skipped = first.skipped};
  std::vector<runs::Estimate> seeds;
  std::vector<double> chances;
  std::vector<double> shares;
  for (const auto& [seed, run] : group.runs) {
    const ResultRow* row = find_row(*run->results, place_of(first));
    if (row == nullptr || !row->skipped.empty()) continue;
    seeds.push_back(row->estimate);
    chances.push_back(row->chance);
    if (row->trained_share) shares.push_back(*row->trained_share);
  }
  cell.n = seeds.size();
  if (seeds.empty()) return cell;
  cell.estimate = runs::combine_seeds(seeds);
  const runs::Interval bounds = bounds_of(group.runs.begin()->second->results->metric);
  cell.estimate.interval = runs::clamp(cell.estimate.interval, bounds.low, bounds.high);
  const auto [low, high] = std::minmax_element(
      seeds.begin(), seeds.end(),
      [](const runs::Estimate& a, const runs::Estimate& b) { return a.value < b.value; });
  cell.lowest = low->value;
  cell.highest = high->value;
  cell.chance = mean(chances);
  if (!shares.empty()) cell.trained_share = mean(shares);
  return cell;
}

std::vector<Cell> make_cells(const SeedGroup& group) {
  std::vector<Cell> cells;
  std::set<Place> seen;
  for (const auto& [seed, run] : group.runs) {
    for (const ResultRow& row : run->results->rows) {
      if (seen.insert(place_of(row)).second) cells.push_back(make_cell(group, row));
    }
  }
  return cells;
}

// The threshold is an accuracy; of errors its complement is asked. Bits have none.
std::optional<double> limit_of(const std::string& metric, double threshold) {
  if (metric == "accuracy") return threshold;
  if (metric == "error") return 1.0 - threshold;
  return std::nullopt;
}

std::int64_t effective_length_of(const Results& results, const EffectiveLength& of, double limit) {
  std::vector<runs::LengthValue> values;
  for (const ResultRow& row : results.rows) {
    if (row.axis == of.axis && row.schedule == of.schedule && row.skipped.empty()) {
      values.push_back({row.length, row.estimate.value});
    }
  }
  return runs::effective_length(values, limit, runs::higher_is_better(results.metric));
}

std::vector<EffectiveLength> effective_lengths(const SeedGroup& group, const Entry& entry,
                                               double threshold) {
  const auto limit = limit_of(group.runs.begin()->second->results->metric, threshold);
  if (!limit) return {};
  std::vector<EffectiveLength> all;
  for (const Cell& cell : entry.cells) {
    const bool known = std::any_of(all.begin(), all.end(), [&](const EffectiveLength& e) {
      return e.axis == cell.axis && e.schedule == cell.schedule;
    });
    if (known || cell.axis == kInDomain) continue;
    EffectiveLength length{.axis = cell.axis, .schedule = cell.schedule};
    std::vector<std::int64_t> seeds;
    for (const auto& [seed, run] : group.runs) {
      seeds.push_back(effective_length_of(*run->results, length, *limit));
    }
    std::sort(seeds.begin(), seeds.end());
    length.lowest = seeds.front();
    length.median = seeds[(seeds.size() - 1) / 2];
    length.highest = seeds.back();
    all.push_back(length);
  }
  return all;
}

Entry make_entry(const SeedGroup& group, std::size_t variant, double threshold) {
  Entry entry{.encoding = group.encoding, .variant = variant};
  std::vector<double> speeds;
  std::vector<double> times;
  std::vector<double> peaks;
  for (const auto& [seed, run] : group.runs) {
    entry.seeds.push_back(seed);
    entry.paths.push_back(run->path.string());
    speeds.push_back(run->results->tokens_per_s);
    times.push_back(run->results->train_seconds);
    peaks.push_back(static_cast<double>(run->results->peak_memory_bytes));
  }
  const Run& first = *group.runs.begin()->second;
  entry.parameters = first.results->parameters_of("total");
  entry.position_parameters = first.results->parameters_of("positions");
  entry.machine = first.machine;
  entry.tokens_per_s = mean(speeds);
  entry.train_seconds = mean(times);
  entry.peak_memory_bytes = mean(peaks);
  entry.cells = make_cells(group);
  entry.effective = effective_lengths(group, entry, threshold);
  return entry;
}

// Only a speed from the same kind of machine tells the cost of an encoding.
void add_costs(TaskTable& table) {
  for (Entry& entry : table.entries) {
    for (const Entry& plain : table.entries) {
      const bool base = plain.encoding == "none" && plain.variant == entry.variant;
      if (!base || entry.tokens_per_s <= 0.0 || plain.tokens_per_s <= 0.0) continue;
      if (plain.machine == entry.machine) {
        entry.cost = plain.tokens_per_s / entry.tokens_per_s;
      } else {
        table.notes.push_back(
            fmt::format("{} has no cost: it was trained on another machine than "
                        "none ({}; {})",
                        entry.encoding, entry.machine, plain.machine));
      }
    }
  }
}

void note_variants(TaskTable& table) {
  if (table.variants.size() < 2) return;
  table.notes.emplace_back("configs differ in more than encoding and seed:");
  for (const Variant& variant : table.variants) {
    table.notes.push_back(fmt::format("  {}: {}", variant.name, fmt::join(variant.settings, ", ")));
  }
}

void note_missing(TaskTable& table) {
  for (const Entry& entry : table.entries) {
    for (const Cell& cell : entry.cells) {
      const std::string place =
          fmt::format("{} at {} {:.3g}x", entry.encoding, cell.axis, cell.factor);
      if (!cell.skipped.empty()) {
        table.notes.push_back(fmt::format("{}: no figure: {}", place, cell.skipped));
      } else if (cell.n < entry.seeds.size()) {
        table.notes.push_back(
            fmt::format("{}: {} of {} seeds have it", place, cell.n, entry.seeds.size()));
      }
    }
  }
}

void note_seeds(TaskTable& table) {
  const bool single = std::any_of(table.entries.begin(), table.entries.end(),
                                  [](const Entry& entry) { return entry.seeds.size() < 2; });
  if (single)
    table.notes.emplace_back("with n 1 an interval is over samples alone, not over seeds");
}

TaskTable make_table(const TaskGroup& group, const CompareOptions& options) {
  TaskTable table{.task = group.task, .variants = group.variants};
  for (const SeedGroup& seeds : group.groups) {
    const Results& first = *seeds.runs.begin()->second->results;
    const double threshold = options.threshold.value_or(first.threshold);
    const auto variant = std::find(group.shared.begin(), group.shared.end(), seeds.shared);
    table.metric = first.metric;
    table.threshold = threshold;
    table.entries.push_back(
        make_entry(seeds, static_cast<std::size_t>(variant - group.shared.begin()), threshold));
    add_once(table.train_lengths, first.train_length);
    for (const Cell& cell : table.entries.back().cells) {
      if (cell.axis != kInDomain) add_once(table.axes, cell.axis);
      add_once(table.factors, cell.factor);
    }
  }
  std::stable_sort(table.entries.begin(), table.entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.variant, a.encoding != "none") < std::pair(b.variant, b.encoding != "none");
  });
  std::sort(table.factors.begin(), table.factors.end());
  std::sort(table.train_lengths.begin(), table.train_lengths.end());
  note_variants(table);
  note_missing(table);
  note_seeds(table);
  add_costs(table);
  return table;
}

}  // namespace

const Cell* Entry::cell(const std::string& axis, double factor, const std::string& schedule) const {
  const auto found = std::find_if(cells.begin(), cells.end(), [&](const Cell& c) {
    return c.axis == axis && c.factor == factor && c.schedule == schedule;
  });
  return found == cells.end() || found->n == 0 ? nullptr : &*found;
}

Comparison compare(const std::vector<Run>& runs, const CompareOptions& options) {
  Comparison comparison;
  for (const TaskGroup& group : group_runs(runs, comparison.left_out)) {
    comparison.tasks.push_back(make_table(group, options));
  }
  comparison.rankings = rank_encodings(comparison.tasks);
  return comparison;
}

}  // namespace posenc::report
