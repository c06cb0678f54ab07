#include "bench/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "bench/baseline.h"
#include "bench/limits.h"
#include "bench/memory.h"
#include "cases/attention_data.h"
#include "cases/compare.h"
#include "cases/rope_problem.h"
#include "posenc/core/threads.h"

namespace posenc::bench {
namespace {

using cases::Case;
using cases::Limit;
using cases::TimedCase;

constexpr double kNever = std::numeric_limits<double>::infinity();

// The bytes a kernel must move at least, where a stream is its limit.
std::vector<std::span<std::byte>> streamed(cases::Problem& problem) {
  if (auto* rope = dynamic_cast<cases::RopeProblem*>(&problem)) {
    return {rope->q.storage(), rope->k.storage()};
  }
  auto& attention = dynamic_cast<cases::AttentionProblem&>(problem).data;
  return {attention.k.storage(), attention.v.storage()};
}

// The work of a limit, and how much of it a run does.
struct LimitWork {
  std::function<void()> run;
  double amount = 0.0;  // flops or bytes
};

LimitWork limit_work(Limit limit, cases::Problem& problem) {
  if (limit == Limit::kSgemm) {
    static Sgemm sgemm;
    return {[] { sgemm.run(); }, Sgemm::kFlops};
  }
  if (limit == Limit::kNone) return {};
  const auto spans = streamed(problem);
  const auto bytes = static_cast<double>(spans[0].size() + spans[1].size());
  if (limit == Limit::kRead) {
    return {[spans] {
              for (const auto& s : spans) read_through(s);
            },
            bytes};
  }
  return {[spans] {
            for (const auto& s : spans) update_in_place(s);
          },
          2.0 * bytes};
}

void run(cases::Problem& problem, bool with_backward) {
  problem.forward();
  if (with_backward) problem.backward();
}

// At full size, where the reference would take minutes: the baseline is the other opinion.
std::string disagreement(const Case& c, const std::vector<double>& theirs,
                         const cases::Problem& problem) {
  if (theirs.empty()) return "";
  const std::vector<double> ours = problem.results(false)[0].values;
  double largest = 1e-2;
  for (const double x : theirs) largest = std::max(largest, std::abs(x));
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (std::abs(ours[i] - theirs[i]) <= 1e-4 * largest + cases::rounding(c.dtype, theirs[i])) {
      continue;
    }
    return fmt::format("value {} is {} but the baseline says {}", i, ours[i], theirs[i]);
  }
  return "";
}

// Chooses the faster oneDNN setting, and leaves it set.
double baseline_seconds(Baseline& baseline, bool with_backward, const Effort& effort) {
  std::array<double, 2> best = {kNever, kNever};
  for (const bool on : {false, true}) {
    set_baseline_onednn(on);
    for (int n = 0; n < 2; ++n) {
      best[on ? 1 : 0] =
          std::min(best[on ? 1 : 0], seconds_of([&] { baseline.run(with_backward); }));
    }
  }
  set_baseline_onednn(best[1] < best[0]);
  const double again = best_of({effort.seconds, 1}, [&] { baseline.run(with_backward); });
  return std::min({best[0], best[1], again});
}

void measure_baseline(const TimedCase& timed, cases::Problem& problem, const Options& options,
                      Row& row) {
  if (!options.baselines) return;
  if (!timed.baseline) {
    row.no_baseline = "scores as tensors do not fit into memory";
    return;
  }
  const auto baseline = make_baseline(timed.c, problem, row.no_baseline);
  if (baseline == nullptr) return;
  set_baseline_threads(row.threads);
  row.baseline_peak_bytes = peak_bytes_of([&] { baseline->run(timed.with_backward); });
  const Case& c = timed.c;
  const bool fits = c.batch * c.heads * c.queries * c.head_dim <= std::int64_t{1} << 25;
  const std::vector<double> theirs = fits ? baseline->float32_out() : std::vector<double>{};
  problem.forward();
  if (const std::string text = disagreement(c, theirs, problem); !text.empty()) {
    row.checked = false;
    row.problem = text;
  }
  row.baseline_ms = 1e3 * baseline_seconds(*baseline, timed.with_backward, options.effort);
}

// Kernel, limit and plain kernel in turns: a machine that slows down slows all of them.
void time_in_turns(const TimedCase& timed, cases::Problem& problem, const Options& options,
                   Row& row) {
  const LimitWork limit = limit_work(timed.limit, problem);
  std::unique_ptr<cases::Problem> plain;
  if (!timed.plain.empty() && timed.plain != timed.name) {
    Case without = timed.c;
    without.spec = "none";
    if (timed.c.page == 0) without.cache_dtype.reset();
    without.page = 0;
    plain = cases::make_problem(without);
  }
  double best = kNever;
  double best_limit = kNever;
  double best_plain = kNever;
  repeat(options.effort, [&] {
    if (limit.run) best_limit = std::min(best_limit, seconds_of(limit.run));
    if (plain)
      best_plain = std::min(best_plain, seconds_of([&] { run(*plain, timed.with_backward); }));
    best = std::min(best, seconds_of([&] { run(problem, timed.with_backward); }));
  });
  row.ms = 1e3 * best;
  if (plain) row.relative_to_plain = best / best_plain;
  if (!limit.run) return;
  const double work = timed.limit == Limit::kSgemm ? timed.flops : limit.amount;
  row.limit = 1e-9 * limit.amount / best_limit;
  row.fraction_of_limit = (work / best) / (limit.amount / best_limit);
}

// Everything but the times.
Row prepare(const TimedCase& timed, cases::Problem& problem, const Options& options) {
  constexpr std::array<const char*, 4> kLimits = {"", "sgemm", "update", "read"};
  Row row;
  row.name = timed.name;
  row.c = timed.c;
  row.pass = timed.with_backward ? "forward+backward" : "forward";
  row.threads = num_threads();
  row.limit_of = kLimits[static_cast<std::size_t>(timed.limit)];
  row.limit_unit = timed.limit == Limit::kSgemm ? "GFLOP/s" : row.limit_of.empty() ? "" : "GB/s";
  const cases::Comparison found = cases::check(cases::small_twin(timed.c), timed.with_backward);
  row.checked = found.fine();
  row.problem = found.mismatch;
  row.path = problem.path();
  measure_baseline(timed, problem, options, row);
  row.peak_bytes = peak_bytes_of([&] { run(problem, timed.with_backward); });
  return row;
}

std::vector<Row> measure(const TimedCase& timed, const Options& options) {
  const auto problem = cases::make_problem(timed.c);
  Row row = prepare(timed, *problem, options);
  time_in_turns(timed, *problem, options, row);
  return {row};
}

// Lengths in turns, so that what is between two of them is not the machine's mood.
std::vector<Row> measure_series(const std::vector<TimedCase>& series, const Options& options) {
  std::vector<std::unique_ptr<cases::Problem>> problems;
  std::vector<Row> rows;
  for (const TimedCase& timed : series) {
    problems.push_back(cases::make_problem(timed.c));
    rows.push_back(prepare(timed, *problems.back(), options));
    rows.back().ms = kNever;
  }
  const double enough = options.effort.seconds * static_cast<double>(series.size());
  repeat({enough, options.effort.least}, [&] {
    for (std::size_t i = 0; i < series.size(); ++i) {
      const double time = seconds_of([&] { run(*problems[i], series[i].with_backward); });
      rows[i].ms = std::min(rows[i].ms, 1e3 * time);
    }
  });
  for (std::size_t i = 1; i < rows.size(); ++i) rows[i].per_doubling = rows[i].ms / rows[i - 1].ms;
  return rows;
}

}  // namespace

std::vector<Job> cpu_jobs() {
  std::vector<Job> jobs;
  std::map<std::string, std::vector<TimedCase>> series;
  for (const TimedCase& timed : cases::timed_cases()) {
    if (!timed.series.empty()) {
      series[timed.series].push_back(timed);
    } else {
      jobs.push_back(
          {timed.name, [timed](const Options& options) { return measure(timed, options); }});
    }
  }
  for (const auto& [name, rows] : series) {
    jobs.push_back({name, [rows = rows](const Options& o) { return measure_series(rows, o); }});
  }
  for (Job& job : rope_ladder_jobs()) jobs.push_back(std::move(job));
  for (Job& job : operator_jobs()) jobs.push_back(std::move(job));
  return jobs;
}

}  // namespace posenc::bench
