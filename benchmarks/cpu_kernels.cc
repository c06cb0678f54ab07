// The timed rows of the case table under Google Benchmark, for its statistics and its tools:
//
//   cpu_kernels [--benchmark_filter=attention] [--benchmark_repetitions=5]
//
// `posenc bench cpu` also times the same rows as libtorch operations and prints memory. `limit` is
// the share of the limit reached, measured in turns with the row. Every row first checks a small twin
// against the float64 reference.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "bench/limits.h"
#include "bench/timing.h"
#include "cases/compare.h"
#include "cases/table.h"
#include "posenc/core/threads.h"
#include "system/restart.h"

namespace posenc {
namespace {

double sgemm_seconds() {
  static bench::Sgemm sgemm;
  return bench::seconds_of([] { sgemm.run(); });
}

void time_row(benchmark::State& state, const cases::TimedCase& row) {
  const cases::Comparison found = cases::check(cases::small_twin(row.c), row.with_backward);
  if (!found.fine()) {
    state.SkipWithError(("wrong result: " + found.mismatch).c_str());
    return;
  }
  const auto problem = cases::make_problem(row.c);
  double best = std::numeric_limits<double>::infinity();
  double best_sgemm = best;
  for (auto _ : state) {
    if (row.limit == cases::Limit::kSgemm) best_sgemm = std::min(best_sgemm, sgemm_seconds());
    const double time = bench::seconds_of([&] {
      problem->forward();
      if (row.with_backward) problem->backward();
    });
    best = std::min(best, time);
    state.SetIterationTime(time);
  }
  if (row.limit == cases::Limit::kSgemm) {
    state.counters["limit"] = row.flops / best / (bench::Sgemm::kFlops / best_sgemm);
  }
  state.SetLabel(problem->path());
}

void register_rows() {
  for (const cases::TimedCase& row : cases::timed_cases()) {
    benchmark::RegisterBenchmark(row.name.c_str(), time_row, row)
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond)
        ->MinTime(0.3);
  }
}

}  // namespace
}  // namespace posenc

int main(int argc, char** argv) {
  posenc::restart_with(posenc::better_openblas());
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  posenc::register_rows();
  fmt::print("threads {}, OpenBLAS for {}\n", posenc::num_threads(), posenc::bench::Sgemm::core());
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
