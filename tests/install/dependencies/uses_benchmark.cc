#include <benchmark/benchmark.h>

static void add(benchmark::State& state) {
  int sum = 0;
  for (auto _ : state) benchmark::DoNotOptimize(++sum);
}

int main() {
  benchmark::RegisterBenchmark("add", add)->Iterations(10);
  return benchmark::RunSpecifiedBenchmarks() == 1 ? 0 : 1;
}
