// Runs grouped and averaged: per task a table of encodings, seeds taken together, and what tests make of it.
//
// Runs whose configs differ in the seed alone are one entry. Entries of a task whose configs or evaluations
// differ in more than encoding and seed are still set side by side, as variants A, B, ..., and what differs
// is said.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/collect.h"
#include "statistics/estimates.h"
#include "statistics/findings.h"
#include "statistics/paired.h"

namespace posenc::report {

inline constexpr const char* kInDomain = "train";  // the axis of samples as they are trained on
inline constexpr const char* kSeveralMachines =
    "several machines";  // Entry::machine where seeds differ

// One figure of an entry, over one range of positions.
struct RegionFigure {
  runs::PositionRange positions;
  std::vector<double> points;  // of the finished runs, by seed
  // Failed runs count as the metric's worst value; NaN where it has none.
  double mean = 0.0;
  // 95 %, over seeds and rows (statistics/estimates.h). Nothing for fewer than statistics::kFewestSeeds runs.
  std::optional<statistics::Interval> interval;
  double chance = 0.0;
};

// An axis at a length.
struct Cell {
  std::string axis;
  double factor = 0;
  std::int64_t length = 0;
  std::string schedule;
  bool beyond_training = false;
  std::size_t n = 0;       // runs behind it, failed ones among them; 0: no run has it
  std::size_t failed = 0;  // of them
  std::array<RegionFigure, runs::kRegions.size()> regions;
  std::optional<double> trained_share;
  std::vector<PositionResult> by_position;  // means over the finished runs
  std::vector<DepthResult> by_depth;
  std::vector<double> single;  // of row metrics, by seed: the same of single answers, in the metric
  std::vector<double> generated;  // by seed, where answers of several tokens were generated
  std::string skipped;            // why a run has no figure here

  [[nodiscard]] const RegionFigure& region(runs::Region region) const {
    return regions[static_cast<std::size_t>(region)];
  }
  [[nodiscard]] const RegionFigure& headline() const { return region(runs::Region::kHeadline); }
};

// Over the seeds of an entry; a failed run reaches length 0.
struct EffectiveLength {
  std::string axis;
  std::string schedule;
  std::int64_t lowest = 0;
  std::int64_t median = 0;  // the lower of the two middle ones
  std::int64_t highest = 0;
};

struct FailedRun {
  std::int64_t seed = 0;
  std::string path;
  std::string remark;  // "diverged at step 300: loss is nan"
};

struct Entry {
  std::string encoding;
  std::size_t variant = 0;          // of the task's
  std::vector<std::int64_t> seeds;  // of the finished runs
  std::vector<FailedRun> failed;
  std::vector<Cell> cells;
  std::vector<EffectiveLength> effective;  // of the axes that have a threshold
  std::int64_t parameters = 0;
  std::int64_t position_parameters = 0;
  double tokens_per_s = 0.0;  // mean over the finished runs, as the two below
  double train_seconds = 0.0;
  double peak_memory_bytes = 0.0;
  // Time per token over that of the variant's entry without positions.
  std::optional<double> cost;
  // Of a language model that ignores distant tokens: longer rows say nothing about it (context_use.h).
  std::optional<std::int64_t> used_positions;
  std::string machine;
  std::vector<std::string> paths;  // of the finished runs, as shown
  std::vector<RunFolder> folders;  // where their files are

  [[nodiscard]] std::size_t runs() const { return seeds.size() + failed.size(); }
  [[nodiscard]] const Cell* cell(const std::string& axis, double factor,
                                 const std::string& schedule = "") const;
  // The same for a row of a table: up to the trained length a model has its own schedule.
  [[nodiscard]] const Cell* row_cell(const std::string& axis, double factor,
                                     const std::string& schedule) const;
};

struct Variant {
  std::string name;                   // "A"; empty where there is only one
  std::vector<std::string> settings;  // "model.layers=4": what other variants have otherwise
};

// An entry that tests put ahead of every other one of its variant.
enum class Merit { kInDistribution, kBeyondTraining, kSpeed };
constexpr std::array<std::string_view, 3> enum_names(Merit /*tag*/) {
  return {"in_domain", "beyond_training", "speed"};
}
struct BackedBest {
  Merit merit = Merit::kInDistribution;
  std::size_t entry = 0;
  std::string schedule = {};  // that it is best under; empty: the model's own
  std::string support;        // "ahead of every other encoding at 2x and at 4x"
};

struct TaskTable {
  std::string task;
  Metric metric = Metric::kAccuracy;
  bool row_metric = false;
  double threshold = 0.9;         // of the effective length
  std::vector<std::string> axes;  // in the order of the files, in-domain left out
  std::vector<double> factors;
  std::vector<std::int64_t> train_lengths;
  std::vector<Variant> variants;
  std::vector<Entry> entries;  // by variant, none first, then as found
  std::vector<std::string> notes;
  std::string sharing;  // why training speeds are not compared (sharing.h); also among the notes
  std::vector<statistics::Finding> findings;
  std::vector<BackedBest> best;
};

struct Comparison {
  std::vector<TaskTable> tasks;
  // Runs that are in no table: "runs/a stopped at step 300".
  std::vector<std::string> left_out;
};

struct CompareOptions {
  std::optional<double> threshold;  // of the effective length, in place of the runs' own
};

Comparison compare(const std::vector<Run>& runs, const CompareOptions& options = {});

// The mean headline over the conditions beyond training, those longer than training under the schedule: NaN
// where the entry lacks one that others of its variant have; nothing where none has any.
std::optional<double> beyond_training(const TaskTable& table, const Entry& entry,
                                      const std::string& schedule = "");

}  // namespace posenc::report
