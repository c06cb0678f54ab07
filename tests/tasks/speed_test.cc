// Tokens per second of one core, printed and never judged: a slow machine is no broken generator.
#include <gtest/gtest.h>

#include <cstdio>
#include <ctime>

#include "tasks/generated_tasks.h"

namespace posenc::tasks {
namespace {

double tokens_per_second(const Task& task, std::int64_t length) {
  const Condition condition{"train", length};
  Batch batch;
  batch.rows = 64;
  task.fill(condition, 1, 0, batch);  // memory is there from here on
  std::uint64_t row = 0;
  const std::clock_t start = std::clock();
  double spent = 0.0;  // of the processor, since others may be using it too
  while (spent < 0.2) {
    task.fill(condition, 1, row, batch);
    row += 64;
    spent = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  }
  return static_cast<double>(row) * static_cast<double>(length) / spent;
}

TEST(SpeedSlow, PrintsTokensPerSecond) {
  for (const SampleTask& sample : generated_tasks()) {
    const auto task = make_task(sample.config);
    const double rate = tokens_per_second(*task, 512);
    std::printf("%-24s %8.1f million tokens/s\n", sample.title.c_str(), rate / 1e6);
    EXPECT_GT(rate, 0.0);
  }
}

}  // namespace
}  // namespace posenc::tasks
