// A run directory with everything that a pack keeps or leaves out.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "runs/attention_case.h"
#include "runs/metrics.h"
#include "runs/pack.h"
#include "runs/run_directory.h"
#include "runs/saved_steps.h"

namespace posenc::testing {

inline Value metrics_row(const std::string& kind, std::int64_t step) {
  return map_of({{"kind", text(kind)},
                 {"step", whole(step)},
                 {"loss", number(1.0 / (1.0 + static_cast<double>(step)))}});
}

struct PackedRun {
  std::string encoding = "rope";
  std::string config_hash = "a1";
  runs::RunState state = runs::RunState::kFinished;
  std::vector<std::string> command_line = {"train", "configs/demo.yaml"};
  std::string message = "";
  bool extras = false;  // metrics, attention, checkpoints and what no pack keeps
};

inline void write_extras(const std::string& path) {
  runs::MetricsWriter metrics(path + "/metrics.jsonl");
  for (int step = 1; step <= 500; ++step) metrics.append(metrics_row("train", step));
  for (const std::int64_t length : {8, 16}) {
    runs::write_attention(runs::attention_path(path, "train", length, 3),
                          attention_record(length, 1, {"rope"}));
  }
  runs::Checkpoints checkpoints(path + "/checkpoints");
  save_step(checkpoints, 400, 0.5);
  save_step(checkpoints, 500, 0.4);
  write_content(path + "/events.out.tfevents.1", "events");
  write_content(path + "/notes.txt", "mine");
}

inline void write_packed_run(const std::string& path, const PackedRun& run = {}) {
  Value::List words;
  for (const std::string& word : run.command_line) words.push_back(text(word));
  const auto directory = runs::RunDirectory::create(
      path, {.config = fmt::format("seed: 7\nmodel: {{encoding: {}}}\n", run.encoding),
             .config_hash = run.config_hash,
             .environment = map_of(
                 {{"cpu", text("tiny")}, {"command_line", {Value::Data(std::move(words))}}})});
  directory.write_results(map_of({{"task", text("parity")}, {"path", text(path)}}));
  if (run.extras) write_extras(path);
  directory.set_status({run.state, 500, run.message, run.config_hash});
}

}  // namespace posenc::testing
