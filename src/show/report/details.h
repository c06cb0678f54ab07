// What a page shows of a run besides its results: config, machine, command, training.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "report/compare.h"

namespace posenc::report {

// A row of metrics.jsonl; NaN where it has no such number.
struct TrainingPoint {
  std::int64_t step = 0;
  double loss = 0.0;
  double accuracy = 0.0;
};
// An evaluation during training, in the task's metric.
struct CheckPoint {
  std::int64_t step = 0;
  double value = 0.0;
  std::string axis = "train";
  std::int64_t length = 0;
};

struct RunDetails {
  std::string config;  // text of config.yaml
  Value environment;
  std::vector<TrainingPoint> training;
  std::vector<CheckPoint> checks;
};

// Of every run in the tables, by its path. What cannot be read is left empty, and said in `remarks`.
using Details = std::map<std::string, RunDetails>;
Details read_details(const Comparison& comparison, std::vector<std::string>& remarks);

// "posenc train configs/demo.yaml --set model.encoding=rope", ready for a shell; empty where the run does
// not say.
std::string command_of(const RunDetails& run);

// "Intel Xeon, 2 cores, 23.5 GiB, Debian 12; 1 thread on cpu; posenc 0.2.0 (9c842a77fd), ..."
std::string machine_text(const Value& environment);
// Member of an environment as a word; empty where it has none.
std::string environment_word(const Value& environment, std::string_view key);

}  // namespace posenc::report
