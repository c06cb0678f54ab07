// posenc bench train: tokens per second and peak memory of training steps, by encoding and length.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "bench/training.h"

namespace posenc::bench {

struct TrainingArguments {
  TrainingShape shape;
  std::vector<std::int64_t> lengths;
  std::string device = "cpu";
  std::string precision = "float32";
  std::string filter;
  double seconds = 0.5;
  int threads = 0;
  bool json = false;
  double memory = 0.0;                 // GiB that may be used; 0: what is left
  std::string output;                  // a file for the rows, besides what is printed
  const CLI::Option* batch = nullptr;  // whether it was given
};

void add_training_options(CLI::App& train, TrainingArguments& arguments);
// Its exit code: 0 where every checked row agrees with its composition.
int run_training(const TrainingArguments& arguments);

}  // namespace posenc::bench
