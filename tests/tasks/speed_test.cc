// Tokens per second of one core, printed and never judged: a slow machine is no broken generator.
#include <gtest/gtest.h>

#include <cstdio>
#include <ctime>

#include "tasks/generated_tasks.h"
#include "tasks/text_files.h"

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

void print_speed(const std::string& title, const TaskConfig& config) {
  const double rate = tokens_per_second(*make_task(config), 512);
  std::printf("%-24s %8.1f million tokens/s\n", title.c_str(), rate / 1e6);
  EXPECT_GT(rate, 0.0);
}

TEST(SpeedSlow, PrintsTokensPerSecond) {
  for (const SampleTask& sample : generated_tasks()) print_speed(sample.title, sample.config);
  const TextFiles folder;
  for (std::size_t i = 0; i < 20; ++i) folder.write("f" + std::to_string(i), noise(100000, i));
  const CorpusFiles files{.path = folder.path()};
  print_speed("language_model", LanguageModel{.files = files});
  print_speed("masked_language_model", MaskedLanguageModel{.files = files});
  print_speed("passage_matching", PassageMatching{.files = files});
}

}  // namespace
}  // namespace posenc::tasks
