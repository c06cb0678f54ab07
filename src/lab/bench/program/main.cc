// `posenc bench`: times the kernels against their baselines and the machine's limits. A program of its
// own, so that the other verbs need not wait for libtorch to load.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "bench/baseline.h"
#include "bench/limits.h"
#include "bench/measure.h"
#include "bench/memory.h"
#include "bench/program/figures.h"
#include "bench/program/training_table.h"
#include "command/help.h"
#include "command/mistakes.h"
#include "command/output.h"
#include "command/ranges.h"
#include "command/verb_doc.h"
#include "core/failure.h"
#include "core/plain_text.h"
#include "posenc/core/error.h"
#include "posenc/core/threads.h"
#include "system/restart.h"

namespace posenc::bench {
namespace {

// Exit codes, as of the other verbs.
constexpr int kFailure = 1;
constexpr int kMistake = 2;

struct BenchArguments {
  std::string filter;
  double seconds = 0.5;
  int threads = 0;
  bool json = false;
  bool list = false;
  bool no_baseline = false;
};

Json row_json(const Row& row) {
  Json shape = {{"batch", row.c.batch},     {"heads", row.c.heads}, {"kv_heads", row.c.kv_heads},
                {"queries", row.c.queries}, {"keys", row.c.keys},   {"head_dim", row.c.head_dim}};
  Json json = {{"name", row.name},
               {"op", cases::operation_name(row.c.op)},
               {"encoding", row.c.spec},
               {"pass", row.pass},
               {"shape", shape},
               {"dtype", dtype_name(row.c.dtype)},
               {"threads", row.threads},
               {"ms", row.ms},
               {"baseline_ms", or_null(row.baseline_ms)},
               {"speedup", or_null(row.speedup())},
               {"limit", or_null(row.limit)},
               {"limit_of", row.limit_of},
               {"limit_unit", row.limit_unit},
               {"fraction_of_limit", or_null(row.fraction_of_limit)},
               {"relative_to_plain", or_null(row.relative_to_plain)},
               {"per_doubling", or_null(row.per_doubling)},
               {"peak_bytes", or_null(row.peak_bytes)},
               {"baseline_peak_bytes", or_null(row.baseline_peak_bytes)},
               {"table_bytes", or_null(row.table_bytes)},
               {"path", row.path},
               {"checked", row.checked}};
  if (!row.no_baseline.empty()) json["no_baseline"] = row.no_baseline;
  if (!row.problem.empty()) json["problem"] = row.problem;
  return json;
}

void print_header() {
  fmt::print(
      "OpenBLAS for {}, baselines {}, threads {}\n"
      "  ms: best of several runs      x base: baseline's time over ours\n"
      "  limit: share of {{sgemm, update, read}} reached   plain: time over that without "
      "encodings\n"
      "  x2: time over that at half the length           MiB: peak beyond inputs and outputs\n\n"
      "{:<56}{:>10}{:>11}{:>8}{:>7}{:>7}{:>6}{:>9}{:>10}  {}\n",
      Sgemm::core(),
      baseline_library().empty() ? "none (built without libtorch)" : baseline_library(),
      num_threads(), "row", "ms", "base ms", "x base", "limit", "plain", "x2", "MiB", "base MiB",
      "checked");
}

void print_row(const Row& row) {
  fmt::print("{:<56}{:>10.3f}{:>11}{:>8}{:>7}{:>7}{:>6}{:>9}{:>10}  {}\n", row.name, row.ms,
             number(row.baseline_ms, 2), number(row.speedup(), 2), number(row.fraction_of_limit, 2),
             number(row.relative_to_plain, 2), number(row.per_doubling, 2),
             mebibytes(row.peak_bytes), mebibytes(row.baseline_peak_bytes),
             (row.checked ? "yes" : "NO: " + row.problem) +
                 (row.no_baseline.empty() ? "" : "; no base: " + row.no_baseline));
  std::fflush(stdout);
}

std::vector<Job> chosen_jobs(const std::string& filter) {
  std::vector<Job> jobs;
  for (Job& job : cpu_jobs()) {
    if (job.name.find(filter) != std::string::npos) jobs.push_back(std::move(job));
  }
  if (jobs.empty()) {
    throw Error(ErrorKind::kUnknownKey, {.scope = "bench",
                                         .key = "--filter",
                                         .rule = "matches no row",
                                         .value = "'" + filter + "'",
                                         .hint = "see posenc bench cpu --list"});
  }
  return jobs;
}

int run_bench(const BenchArguments& arguments) {
  const std::vector<Job> jobs = chosen_jobs(arguments.filter);
  if (arguments.list) {
    for (const Job& job : jobs) fmt::print("{}\n", job.name);
    return 0;
  }
  restart_with(better_openblas());
  give_freed_memory_back();
  set_num_threads(arguments.threads);
  if (!arguments.json) print_header();
  Json all = Json::array();
  bool checked = true;
  for (const Job& job : jobs) {
    for (const Row& row : job.measure({{arguments.seconds, 3}, !arguments.no_baseline})) {
      checked = checked && row.checked;
      all.push_back(row_json(row));
      if (!arguments.json) print_row(row);
    }
  }
  if (arguments.json) fmt::print("{}\n", all.dump(2));
  return checked ? 0 : kFailure;
}

void add_options(CLI::App& cpu, BenchArguments& arguments) {
  cpu.add_option("--filter", arguments.filter, "only rows whose name contains this");
  cpu.add_option("--seconds", arguments.seconds, "time to spend on a row, at least three runs")
      ->check(command::number_in(0.0, 600.0))
      ->capture_default_str();
  cpu.add_option("--threads", arguments.threads, "threads of kernels and baselines; 0: all cores")
      ->check(command::integer_in(0, 1024))
      ->capture_default_str();
  cpu.add_flag("--json", arguments.json, "a list of rows, for programs");
  cpu.add_flag("--list", arguments.list, "print the names of the rows and measure nothing");
  cpu.add_flag("--no-baseline", arguments.no_baseline, "leave libtorch's compositions out");
  cpu.footer(
      "Examples:\n"
      "  posenc bench cpu --list\n"
      "  posenc bench cpu --filter attention/cope --seconds 2\n");
}

int run_program(int argc, char** argv) {
  CLI::App app("Measure the kernels against baselines and limits", "posenc bench");
  command::use_help_layout(app);
  app.footer(
      "Examples:\n"
      "  posenc bench cpu --filter attention/cope\n"
      "  posenc bench train --filter rope --length 512\n");
  app.require_subcommand(1);
  CLI::App* cpu = app.add_subcommand("cpu", "Measure CPU kernels; every result is checked first");
  BenchArguments arguments;
  add_options(*cpu, arguments);
  CLI::App* train =
      app.add_subcommand("train", "Measure whole training steps against compositions");
  TrainingArguments training;
  add_training_options(*train, training);
  if (command::asks_for_verbs(argc, argv)) {
    fmt::print("{}\n", command::verbs_json(app));
    return 0;
  }
  try {
    command::check_verbs(app, {argv + 1, argv + argc});
    app.parse(argc, argv);
  } catch (const CLI::Success& asked_for) {
    return app.exit(asked_for);
  } catch (const CLI::ParseError& problem) {
    fmt::print(stderr, "{}\n", command::mistake_text(app, problem));
    return kMistake;
  }
  return train->parsed() ? run_training(training) : run_bench(arguments);
}

// Results that did not arrive are a failure.
int finished(int code) {
  const std::string problem = command::output_problem(stdout);
  if (problem.empty()) return code;
  fmt::print(stderr, "posenc: {}\n", problem);
  return code == 0 ? kFailure : code;
}

int failed(const std::exception& failure) {
  if (command::is_closed_pipe(failure)) return kFailure;
  const std::string problem = command::output_problem(stdout, &failure);
  if (problem.empty()) {
    fmt::print(stderr, "posenc bench: internal error: {}\n", one_line(failure_text(failure)));
  } else {
    fmt::print(stderr, "posenc: {}\n", problem);
  }
  return kFailure;
}

}  // namespace
}  // namespace posenc::bench

int main(int argc, char** argv) {
  try {
    return posenc::bench::finished(posenc::bench::run_program(argc, argv));
  } catch (const posenc::Error& mistake) {
    fmt::print(stderr, "posenc: {}\n", mistake.what());
    return posenc::bench::kMistake;
  } catch (const std::exception& failure) {
    return posenc::bench::failed(failure);
  }
}
