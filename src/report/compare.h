// Runs grouped and averaged: per task a table of encodings, seeds taken together.
//
// Runs whose configs differ in the seed alone are one entry. Entries of a task whose configs differ in
// more than encoding and seed are still set side by side, as variants A, B, ..., and what differs is said.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/collect.h"
#include "runs/statistics.h"

namespace posenc::report {

inline constexpr const char* kInDomain = "train";  // the axis of samples as they are trained on

// One figure of an entry: an axis at a length.
struct Cell {
  std::string axis;
  double factor = 0;
  std::int64_t length = 0;
  std::string schedule;
  std::size_t n = 0;        // seeds that it is a mean over; 0: none has it
  runs::Estimate estimate;  // mean over seeds; 95 %, over seeds and samples (statistics.h)
  double lowest = 0.0;      // of the seeds
  double highest = 0.0;
  double chance = 0.0;
  std::optional<double> trained_share;
  std::string skipped;  // why a run has no figure here
};

// Over the seeds of an entry.
struct EffectiveLength {
  std::string axis;
  std::string schedule;
  std::int64_t lowest = 0;
  std::int64_t median = 0;  // the lower of the two middle ones
  std::int64_t highest = 0;
};

struct Entry {
  std::string encoding;
  std::size_t variant = 0;  // of the task's
  std::vector<std::int64_t> seeds;
  std::vector<Cell> cells;
  std::vector<EffectiveLength> effective;  // of the axes that have a threshold
  std::int64_t parameters = 0;
  std::int64_t position_parameters = 0;
  double tokens_per_s = 0.0;  // mean over the seeds
  double train_seconds = 0.0;
  double peak_memory_bytes = 0.0;
  // Time per token over that of the variant's entry without positions.
  std::optional<double> cost;
  std::string machine;
  std::vector<std::string> paths;

  [[nodiscard]] const Cell* cell(const std::string& axis, double factor,
                                 const std::string& schedule = "") const;
};

struct Variant {
  std::string name;                   // "A"; empty where there is only one
  std::vector<std::string> settings;  // "model.layers=4": what other variants have otherwise
};

struct TaskTable {
  std::string task;
  std::string metric;
  double threshold = 0.9;         // of the effective length
  std::vector<std::string> axes;  // in the order of the files, in-domain left out
  std::vector<double> factors;
  std::vector<std::int64_t> train_lengths;
  std::vector<Variant> variants;
  std::vector<Entry> entries;  // by variant, none first, then as found
  std::vector<std::string> notes;
};

// How encodings fare over several tables, each variant of a task counting as a task.
struct Ranking {
  std::string what;  // "in domain", "extrapolation"
  std::size_t tasks = 0;
  std::vector<std::string> encodings;           // those that every task has
  std::vector<runs::Estimate> reciprocal_rank;  // of each
};

struct Comparison {
  std::vector<TaskTable> tasks;
  std::vector<Ranking> rankings;  // where there are two tasks or more
  // Runs that are in no table, and remarks on some that are: "runs/a: stopped at step 300".
  std::vector<std::string> left_out;
};

struct CompareOptions {
  std::optional<double> threshold;  // of the effective length, in place of the runs' own
};

Comparison compare(const std::vector<Run>& runs, const CompareOptions& options = {});

// The mean over an axis's lengths beyond the training length: NaN, which ranks last, where the entry
// lacks one that others have; nothing where no entry has any.
std::optional<double> extrapolation(const TaskTable& table, const Entry& entry,
                                    const std::string& axis);

std::vector<Ranking> rank_encodings(const std::vector<TaskTable>& tasks);

}  // namespace posenc::report
