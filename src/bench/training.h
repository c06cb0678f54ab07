// A whole training step, with posenc's attention and with the same attention composed from libtorch's
// operations: the model, the samples, the threads and the optimiser are the same.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/timing.h"

namespace posenc::bench {

struct TrainingRow {
  std::string encoding;
  double tokens_per_s = 0.0;
  double composed_tokens_per_s = 0.0;  // with the faster of oneDNN on and off
  bool composed_onednn = false;
  double data_share = 0.0;  // of a step, for making samples
  std::optional<std::int64_t> peak_bytes;
  std::optional<std::int64_t> composed_peak_bytes;
  double loss_difference = 0.0;  // of the first steps, relative
  [[nodiscard]] bool checked() const { return loss_difference < 1e-4; }
  [[nodiscard]] double speedup() const { return tokens_per_s / composed_tokens_per_s; }
};

struct TrainingShape {
  std::int64_t length = 512;
  std::int64_t dim = 256;
  std::int64_t layers = 4;
  std::int64_t heads = 4;
  std::int64_t batch = 8;
};

// Empty where this was built without libtorch.
std::vector<std::string> training_encodings();
TrainingRow measure_training(const std::string& encoding, const TrainingShape& shape,
                             const Effort& effort);

}  // namespace posenc::bench
