// The attention of a run's model on one of the samples that its evaluation draws, as a record
// (runs/attention_record.h).
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "config/load.h"
#include "runs/attention_record.h"
#include "runs/checkpoints.h"
#include "runs/progress.h"

namespace posenc::train {

// Sample `sample` of evaluate_row with the same axis and length: row number `sample` of the task under
// eval.seed, held out.
struct AttentionQuery {
  std::string axis;         // empty: as in training
  std::int64_t length = 0;  // 0: the training length
  std::int64_t sample = 0;
  // A text of the user's (text_tokens.h) in place of a sample; the three above are not read then, and the record's
  // axis is "text".
  std::optional<std::string> text = {};
};

// Throws where the model has no softmax, where the task has no such axis or sample, and where the maps
// would not fit: more than 2^28 weights.
runs::AttentionRecord attention_of(const config::Loaded& loaded, const tasks::Task& task,
                                   const runs::Loaded& checkpoint, const AttentionQuery& query);

// The same of a run on the disk, last checkpoint or best, written into its folder unless `out` names a file: the
// path.
std::filesystem::path attention_run(const std::filesystem::path& run, const AttentionQuery& query,
                                    bool best, runs::Progress& progress,
                                    const std::filesystem::path& out = {});

// Has this model weights to look at?
bool has_weights(const config::ModelConfig& model);
// The length of samples that are kept without being asked for: the training length, or the longest whose
// file stays below 2 MB, whatever the encoding is, so that runs which differ in it show the same samples.
std::int64_t kept_length(const config::LabConfig& config);

}  // namespace posenc::train
