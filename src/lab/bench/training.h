// A whole training step, with posenc's attention and with the same attention composed from libtorch's
// operations: the model, the samples, the threads and the optimiser are the same.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/timing.h"
#include "config/train_config.h"

namespace posenc::bench {

struct TrainingShape {
  std::int64_t length = 512;
  std::int64_t dim = 256;
  std::int64_t layers = 4;
  std::int64_t heads = 4;
  std::int64_t batch = 8;
};

struct TrainingPlace {
  config::Device device = config::Device::kCpu;
  config::TrainPrecision precision = config::TrainPrecision::kFloat32;
  std::optional<double> memory_bytes = {};  // that may be used; nothing: what the device has left
};

// The training of one model.
struct TrainingFigures {
  double tokens_per_s = 0.0;
  double data_share = 0.0;           // of a step, for making samples
  std::optional<double> idle_share;  // of a step, in which the GPU has nothing to do
  std::optional<std::int64_t> peak_bytes;
  std::vector<double> losses;  // of the first steps
};

struct TrainingRow {
  std::string encoding;
  TrainingShape shape;
  std::optional<TrainingFigures> ours;  // nothing where it does not fit into memory
  // Nothing where there is no composition of the encoding, or where it does not fit into memory.
  std::optional<TrainingFigures> composed;
  bool composed_onednn = false;  // the faster of oneDNN on and off, on a CPU
  double tolerance = 1e-4;       // of the first losses, relative

  // Of the first losses, relative; nothing where one of the two was not trained.
  [[nodiscard]] std::optional<double> loss_difference() const;
  [[nodiscard]] std::optional<double> speedup() const;
  // False where the losses differ; a row without a composition has nothing to be compared with.
  [[nodiscard]] bool checked() const { return loss_difference().value_or(0.0) < tolerance; }
};

// The shapes of a table over lengths: as many samples as keep the tokens of a step constant, at least one.
std::vector<TrainingShape> shapes_for(const TrainingShape& shape,
                                      const std::vector<std::int64_t>& lengths,
                                      std::int64_t tokens_per_step);

// Bytes of the tensors that grow with the square of the length where attention is composed.
double composed_score_bytes(const std::string& encoding, const TrainingShape& shape);

// Every encoding, with a table of positions that is long enough. Empty without libtorch.
std::vector<std::string> training_encodings(std::int64_t length);
bool cuda_found();
// An Error where the shape is no model.
TrainingRow measure_training(const std::string& encoding, const TrainingShape& shape,
                             const TrainingPlace& place, const Effort& effort);

}  // namespace posenc::bench
