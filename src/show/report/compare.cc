#include "report/compare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <set>

#include "report/cells.h"
#include "report/context_use.h"
#include "report/group.h"
#include "report/tested.h"
#include "report/words.h"

namespace posenc::report {
namespace {

template <class T>
void add_once(std::vector<T>& list, const T& item) {
  if (std::find(list.begin(), list.end(), item) == list.end()) list.push_back(item);
}

double mean(const std::vector<double>& values) { return statistics::mean_over_seeds(values).value; }

// What is the same for every run of the entry, and means of what is not.
void add_run_figures(const SeedGroup& group, Entry& entry) {
  if (group.runs.empty()) return;
  std::vector<double> speeds;
  std::vector<double> times;
  std::vector<double> peaks;
  for (const auto& [seed, run] : group.runs) {
    entry.seeds.push_back(seed);
    entry.paths.push_back(run->path.string());
    entry.folders.push_back(run->folder);
    speeds.push_back(run->results->tokens_per_s);
    times.push_back(run->results->train_seconds);
    peaks.push_back(static_cast<double>(run->results->peak_memory_bytes));
  }
  const Run& first = *group.runs.begin()->second;
  entry.parameters = first.results->parameters_of("total");
  entry.position_parameters = first.results->parameters_of("positions");
  const bool one_machine = std::all_of(group.runs.begin(), group.runs.end(), [&](const auto& run) {
    return run.second->machine == first.machine;
  });
  entry.machine = one_machine ? first.machine : kSeveralMachines;
  entry.tokens_per_s = mean(speeds);
  entry.train_seconds = mean(times);
  entry.peak_memory_bytes = mean(peaks);
}

Entry make_entry(const SeedGroup& group, std::size_t variant, const TaskTable& table) {
  Entry entry{.encoding = group.encoding, .variant = variant};
  add_run_figures(group, entry);
  for (const auto& [seed, run] : group.failed) {
    entry.failed.push_back({seed, run->path.string(), run->remark});
  }
  entry.cells = make_cells(group, table.metric, table.row_metric);
  entry.effective = effective_lengths(group, entry.cells, table.metric, table.threshold);
  // A bidirectional model sees the whole row from every position.
  const Cell* in_domain = entry.cell(kInDomain, 1);
  if (table.task == "language_model" && in_domain != nullptr && keeps_loss(entry)) {
    entry.used_positions = used_positions(in_domain->by_position, in_domain->length);
  }
  return entry;
}

// Only a speed from the same kind of machine, used in the same way, tells the cost of an encoding.
void add_costs(const TaskGroup& group, TaskTable& table) {
  for (Entry& entry : table.entries) {
    for (const Entry& plain : table.entries) {
      const bool base = plain.encoding == "none" && plain.variant == entry.variant;
      if (!base || entry.tokens_per_s <= 0.0 || plain.tokens_per_s <= 0.0) continue;
      if (plain.machine == entry.machine && entry.machine != kSeveralMachines) {
        if (note_sharing(group, {&entry, &plain}, table)) continue;
        entry.cost = plain.tokens_per_s / entry.tokens_per_s;
      } else {
        table.notes.push_back(
            fmt::format("{} has no cost: not all runs of it and of none were trained on one "
                        "machine ({}; {})",
                        entry.encoding, entry.machine, plain.machine));
      }
    }
  }
}

void note_variants(TaskTable& table) {
  if (table.variants.size() < 2) return;
  table.notes.emplace_back("configs or evaluations differ in more than encoding and seed:");
  for (const Variant& variant : table.variants) {
    table.notes.push_back(fmt::format("  {}: {}", variant.name, fmt::join(variant.settings, ", ")));
  }
}

void note_missing(TaskTable& table) {
  for (const Entry& entry : table.entries) {
    for (const Cell& cell : entry.cells) {
      const std::string place = fmt::format(
          "{} at {} {:.3g}x", row_name(entry.encoding, cell.schedule), cell.axis, cell.factor);
      if (!cell.skipped.empty()) {
        table.notes.push_back(fmt::format("{}: no figure: {}", place, cell.skipped));
      } else if (cell.n < entry.runs()) {
        table.notes.push_back(
            fmt::format("{}: {} of {} seeds have it", place, cell.n, entry.runs()));
      }
    }
  }
}

void note_failures(TaskTable& table) {
  for (const Entry& entry : table.entries) {
    for (const FailedRun& run : entry.failed) {
      table.notes.push_back(fmt::format("{} seed {} {}", entry.encoding, run.seed, run.remark));
    }
  }
}

void note_intervals(TaskTable& table) {
  const bool few = std::any_of(table.entries.begin(), table.entries.end(), [](const Entry& entry) {
    return entry.runs() < statistics::kFewestSeeds;
  });
  table.notes.emplace_back(
      "[low,high] is a 95 % interval over seeds and over the rows of the evaluation");
  if (few) {
    table.notes.push_back(fmt::format(
        "with fewer than {} seeds there is no interval: the values are those of the seeds",
        statistics::kFewestSeeds));
  }
}

// Why a language model is in no finding about length.
void tell_context(TaskTable& table) {
  for (const Entry& entry : table.entries) {
    if (!entry.used_positions) continue;
    const std::string& variant = table.variants[entry.variant].name;
    const std::string text = fmt::format(
        "{}{} uses about {} of the {} positions it was trained on: its {} no longer "
        "fall after them and stay the same at longer lengths, so those say nothing about it.",
        entry.encoding, variant.empty() ? "" : fmt::format(" (variant {})", variant),
        *entry.used_positions, entry.cell(kInDomain, 1)->length, traits_of(table.metric).unit);
    table.findings.push_back({"", text});
  }
}

// The first run with results says what all runs of a task share.
void add_shared(const TaskGroup& group, const CompareOptions& options, TaskTable& table) {
  for (const SeedGroup& seeds : group.groups) {
    for (const auto& [seed, run] : seeds.runs) {
      table.metric = run->results->metric;
      table.row_metric = run->results->row_metric;
      table.threshold = options.threshold.value_or(run->results->threshold);
      add_once(table.train_lengths, run->results->train_length);
    }
  }
  std::sort(table.train_lengths.begin(), table.train_lengths.end());
}

void add_entries(const TaskGroup& group, TaskTable& table) {
  for (const SeedGroup& seeds : group.groups) {
    const auto variant = std::find(group.shared.begin(), group.shared.end(), seeds.shared);
    table.entries.push_back(
        make_entry(seeds, static_cast<std::size_t>(variant - group.shared.begin()), table));
    for (const Cell& cell : table.entries.back().cells) {
      if (cell.axis != kInDomain) add_once(table.axes, cell.axis);
      add_once(table.factors, cell.factor);
    }
  }
  std::stable_sort(table.entries.begin(), table.entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.variant, a.encoding != "none") < std::pair(b.variant, b.encoding != "none");
  });
  std::sort(table.factors.begin(), table.factors.end());
}

TaskTable make_table(const TaskGroup& group, const CompareOptions& options) {
  TaskTable table{.task = group.task, .variants = group.variants};
  add_shared(group, options, table);
  add_entries(group, table);
  note_variants(table);
  note_failures(table);
  note_missing(table);
  note_intervals(table);
  add_costs(group, table);
  add_findings(group, table);
  tell_context(table);
  return table;
}

}  // namespace

const Cell* Entry::cell(const std::string& axis, double factor, const std::string& schedule) const {
  const auto found = std::find_if(cells.begin(), cells.end(), [&](const Cell& c) {
    return c.axis == axis && c.factor == factor && c.schedule == schedule;
  });
  return found == cells.end() || found->n == 0 ? nullptr : &*found;
}

const Cell* Entry::row_cell(const std::string& axis, double factor,
                            const std::string& schedule) const {
  const Cell* exact = cell(axis, factor, schedule);
  return exact != nullptr || factor > 1.0 ? exact : cell(axis, factor);
}

std::optional<double> beyond_training(const TaskTable& table, const Entry& entry,
                                      const std::string& schedule) {
  std::vector<double> values;
  std::set<std::pair<std::string, double>> seen;
  for (const Entry& other : table.entries) {
    if (other.variant != entry.variant) continue;
    for (const Cell& cell : other.cells) {
      if (!cell.beyond_training || !cell.schedule.empty()) continue;
      if (!seen.emplace(cell.axis, cell.factor).second) continue;
      const Cell* own = entry.row_cell(cell.axis, cell.factor, schedule);
      values.push_back(own == nullptr ? std::numeric_limits<double>::quiet_NaN()
                                      : own->headline().mean);
    }
  }
  return values.empty() ? std::nullopt : std::optional(mean(values));
}

Comparison compare(const std::vector<Run>& runs, const CompareOptions& options) {
  Comparison comparison;
  for (const TaskGroup& group : group_runs(runs, comparison.left_out)) {
    comparison.tasks.push_back(make_table(group, options));
  }
  return comparison;
}

}  // namespace posenc::report
