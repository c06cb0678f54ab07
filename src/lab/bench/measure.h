// Rows of a benchmark: every result is checked before it is timed, and shown next to its baseline and
// the machine's limit, measured in turns with it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/timing.h"
#include "cases/table.h"

namespace posenc::bench {

struct Row {
  std::string name;
  cases::Case c;
  std::string pass;  // forward, or forward+backward
  int threads = 1;
  double ms = 0.0;
  std::optional<double> baseline_ms;  // libtorch's composition, with its faster oneDNN setting
  std::string no_baseline;            // why there is none; empty where it was not asked for
  std::optional<double> limit;        // in `limit_unit`, reached by what `limit_of` names
  std::string limit_of;               // sgemm, update, read
  std::string limit_unit;             // GFLOP/s or GB/s
  std::optional<double> fraction_of_limit;
  std::optional<double> relative_to_plain;  // time over that of the kernel without encodings
  std::optional<double> per_doubling;       // time over that at half the length, in a series
  std::optional<std::int64_t> peak_bytes;   // beyond inputs and outputs that were there
  std::optional<std::int64_t> baseline_peak_bytes;
  std::optional<std::int64_t> table_bytes;  // of cos and sin, in the ladder
  std::string path;
  bool checked = false;
  std::string problem;  // why not

  [[nodiscard]] std::optional<double> speedup() const {
    return baseline_ms ? std::optional(*baseline_ms / ms) : std::nullopt;
  }
};

struct Options {
  Effort effort;
  bool baselines = true;
};

// A job measures one row, or several that belong side by side.
struct Job {
  std::string name;
  std::function<std::vector<Row>(const Options&)> measure;
};

// Every timed row of the case table, the RoPE ladder, and the operators.
std::vector<Job> cpu_jobs();

// RoPE as one usually comes to it, step by step: `basic` computes the angles in every call and returns
// new tensors, `cached` keeps the table, `chunked` keeps none and goes through the sequence in pieces,
// `fused` turns queries and keys in one pass where they are. The baseline of each is the first.
std::vector<Job> rope_ladder_jobs();

// What PyTorch's operators add to their kernels, at T 512; none without libtorch.
std::vector<Job> operator_jobs();

}  // namespace posenc::bench
