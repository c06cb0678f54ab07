// One thread on the way from text to training rows: byte-pair encoding, against a plain loop over the same words, and
// rows of mapped token files that are larger than the CPU's caches.
//
//   build/release/bin/benchmarks/data_pipeline [--benchmark_filter=rows]
//
// The bar for rows: 1 M tokens/s, which is what a fast GPU trains on; benchmarks/torch/loader.cc measures whole steps.
#include <benchmark/benchmark.h>

#include <string>

#include "tasks/task.h"
#include "token_folder.h"

namespace {

namespace tokens = posenc::tokens;
using posenc::benchmarks::text;
using posenc::benchmarks::TokenFolder;
using posenc::benchmarks::tokenizer;

void count(benchmark::State& state, std::int64_t tokens_made, std::int64_t bytes) {
  state.counters["tokens/s"] =
      benchmark::Counter(static_cast<double>(tokens_made), benchmark::Counter::kIsRate);
  if (bytes > 0) state.SetBytesProcessed(bytes);
}

void encode_cached(benchmark::State& state) {
  const tokens::Tokenizer& trained = tokenizer();
  std::int64_t made = 0;
  for ([[maybe_unused]] auto _ : state) {
    tokens::Encoder encoder(trained);
    std::vector<std::int32_t> ids;
    encoder.append(text(), ids);
    made += std::ssize(ids);
  }
  count(state, made, std::ssize(text()) * static_cast<std::int64_t>(state.iterations()));
}

// The loop of the paper's listing: the best pair of the word, merged, until there is none.
void merge_plainly(const tokens::MergeTable& merges, std::vector<std::int32_t>& word) {
  while (true) {
    std::size_t best = word.size();
    tokens::MergeTable::Found lowest;
    for (std::size_t i = 0; i + 1 < word.size(); ++i) {
      const auto found = merges.find(word[i], word[i + 1]);
      if (found.rank < 0 || (best < word.size() && found.rank >= lowest.rank)) continue;
      best = i;
      lowest = found;
    }
    if (best == word.size()) return;
    word[best] = lowest.merged;
    word.erase(word.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

void encode_plain_loop(benchmark::State& state) {
  const tokens::MergeTable merges(tokenizer().parts().merges);
  std::vector<std::int32_t> bytes(256);
  for (int b = 0; b < 256; ++b) {
    bytes[static_cast<std::size_t>(b)] = *tokenizer().find(std::string(1, static_cast<char>(b)));
  }
  std::int64_t made = 0;
  for ([[maybe_unused]] auto _ : state) {
    for (std::size_t at = 0; at < text().size();) {
      const std::size_t end = word_end(tokenizer().parts().pattern, text(), at);
      std::vector<std::int32_t> word;
      for (; at < end; ++at) word.push_back(bytes[static_cast<unsigned char>(text()[at])]);
      merge_plainly(merges, word);
      made += std::ssize(word);
    }
  }
  count(state, made, std::ssize(text()) * static_cast<std::int64_t>(state.iterations()));
}

// A word of many bytes, where the loop is quadratic.
void merge_long_word(benchmark::State& state) {
  const tokens::MergeTable merges(tokenizer().parts().merges);
  std::vector<std::int32_t> word;
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    word.push_back(*tokenizer().find(std::string(1, static_cast<char>('a' + i * i % 26))));
  }
  tokens::WordMerger merger(merges);
  const bool plain = state.range(1) == 1;
  for ([[maybe_unused]] auto _ : state) {
    std::vector<std::int32_t> copy = word;
    if (plain) {
      merge_plainly(merges, copy);
    } else {
      merger.merge(copy);
    }
    benchmark::DoNotOptimize(copy.data());
  }
  state.SetBytesProcessed(state.range(0) * static_cast<std::int64_t>(state.iterations()));
}

void rows(benchmark::State& state) {
  static const TokenFolder folder;
  posenc::tasks::LanguageModel config;
  config.tokens = folder.path();
  const auto task = make_task(config);
  const std::int64_t length = state.range(0);
  posenc::tasks::Batch batch;
  batch.rows = 16384 / length;
  std::uint64_t row = 0;
  for ([[maybe_unused]] auto _ : state) {
    task->fill({.axis = "train", .length = length}, 1, row, batch);
    row += static_cast<std::uint64_t>(batch.rows);
    benchmark::DoNotOptimize(batch.tokens.data());
  }
  count(state, batch.rows * length * static_cast<std::int64_t>(state.iterations()), 0);
}

BENCHMARK(encode_cached)->Unit(benchmark::kMillisecond);
BENCHMARK(encode_plain_loop)->Unit(benchmark::kMillisecond);
BENCHMARK(merge_long_word)
    ->ArgNames({"bytes", "plain"})
    ->Args({1024, 0})
    ->Args({1024, 1})
    ->Args({8192, 0})
    ->Args({8192, 1})
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(rows)->ArgName("length")->Arg(512)->Arg(2048)->Arg(8192);

}  // namespace

BENCHMARK_MAIN();
