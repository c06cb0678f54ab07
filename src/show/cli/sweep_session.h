// A session of a sweep: the jobs of a plan, run or listed, with lines, signals and a summary.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sweep/run.h"

namespace posenc::cli {

struct SessionOptions {
  std::string trainer;
  std::vector<std::string> settings;  // of --set
  int jobs = 1;
  int threads = 0;
  std::optional<double> minutes;  // the time box
  std::string device;             // of every job; empty: as its config says
  bool no_mps = false;
  bool dry_run = false;
  double lease = sweep::kLeaseSeconds;
  bool worker = false;  // a task of an array job
};

// The flags that fill the options, for every verb that runs sweeps.
void add_session_options(CLI::App& verb, SessionOptions& options);

// The flags that stand for these options, for a worker that is to run with them.
void add_session_words(const SessionOptions& options, std::vector<std::string>& words);

// The jobs of a file under --set and --device.
sweep::Plan plan_for(sweep::SweepFile file, const SessionOptions& options);

// Begins now, where --minutes is given. One box may hold for several sessions.
std::optional<sweep::TimeBox> time_box(const SessionOptions& options);

struct SessionResult {
  std::vector<sweep::JobReport> reports;
  int code = 0;  // the exit code of a program that does nothing else
  bool interrupted = false;
  bool time_is_up = false;  // the time box ended before the jobs did
};

// Runs what is left of the jobs, or lists them for --dry-run.
SessionResult run_session(const sweep::Plan& plan, const std::vector<sweep::Job>& jobs,
                          const SessionOptions& options,
                          const std::optional<sweep::TimeBox>& time_box,
                          const std::string& summary_name = "sweep.json");

// The jobs and what would become of each.
void print_jobs(const std::vector<sweep::JobReport>& reports);

// A line of a log that is read while the sweep runs.
void print_line(const std::string& line);

}  // namespace posenc::cli
