// What training steps over token files wait for: their samples, made ahead on a thread.
//
//   build/release/bin/benchmarks/loader
//
// `make` times one thread that makes whole steps, tensors included. `paced` takes a step whenever a device that trains on
// a given number of tokens per second would, and counts the share of the time in which that device waits.
#include <benchmark/benchmark.h>

#include <thread>

#include "tasks/task.h"
#include "token_folder.h"
#include "train/prefetch.h"

namespace {

using Clock = std::chrono::steady_clock;

posenc::config::LabConfig config_of(std::int64_t length, std::int64_t batch, bool masked) {
  static const posenc::benchmarks::TokenFolder folder;
  posenc::tasks::LanguageModel task;
  task.tokens = folder.path();
  task.packing = masked ? posenc::tasks::Packing::kMasked : posenc::tasks::Packing::kOpen;
  posenc::config::LabConfig config;
  config.task = task;
  config.train.length = length;
  config.train.batch = batch;
  config.train.steps = std::int64_t{1} << 40;
  return config;
}

class Steps {
 public:
  explicit Steps(const benchmark::State& state)
      : config_(config_of(state.range(0), state.range(1), state.range(2) == 1)),
        task_(make_task(config_.task)) {}
  [[nodiscard]] posenc::train::StepSamples make(std::int64_t step) const {
    return posenc::train::step_samples(*task_, config_, step);
  }
  [[nodiscard]] std::int64_t tokens() const { return config_.train.length * config_.train.batch; }

 private:
  posenc::config::LabConfig config_;
  std::unique_ptr<posenc::tasks::Task> task_;
};

void make(benchmark::State& state) {
  const Steps steps(state);
  std::int64_t step = 0;
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(steps.make(step++).all.data_ptr());
  }
  state.counters["tokens/s"] =
      benchmark::Counter(static_cast<double>(step * steps.tokens()), benchmark::Counter::kIsRate);
}

// range(3): tokens per second.
void paced(benchmark::State& state) {
  const Steps steps(state);
  posenc::train::Prefetch ahead([&](std::int64_t step) { return steps.make(step); }, 0,
                                std::int64_t{1} << 40, 4);
  const std::chrono::duration<double> step_time(static_cast<double>(steps.tokens()) /
                                                static_cast<double>(state.range(3)));
  std::chrono::duration<double> waited{0};
  const auto begin = Clock::now();
  for ([[maybe_unused]] auto _ : state) {
    const auto asked = Clock::now();
    benchmark::DoNotOptimize(ahead.next().all.data_ptr());
    waited += Clock::now() - asked;
    std::this_thread::sleep_for(step_time);
  }
  const std::chrono::duration<double> all = Clock::now() - begin;
  state.counters["idle_percent"] = 100.0 * waited.count() / all.count();
}

BENCHMARK(make)
    ->ArgNames({"length", "batch", "masked"})
    ->ArgsProduct({{512, 2048, 8192}, {16}, {0, 1}})
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(paced)
    ->ArgNames({"length", "batch", "masked", "tokens_per_s"})
    ->ArgsProduct({{512, 2048}, {16}, {0, 1}, {1000000, 4000000}})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime()
    ->Iterations(400);

}  // namespace

BENCHMARK_MAIN();
