#include <fmt/format.h>

#include "posenc/core/error.h"
#include "train/run.h"

namespace posenc::train {
namespace {

Error refused(const std::string& scope, const std::string& key, const std::string& rule,
              const std::string& value, const std::string& hint) {
  return {ErrorKind::kConflict,
          {.scope = scope, .key = key, .rule = rule, .value = value, .hint = hint}};
}

void check_chunks(const config::TrainConfig& train, const parallel::Launch& launch) {
  if (train.reduction != config::Reduction::kDeterministic || train.chunks % launch.world == 0) {
    return;
  }
  throw refused("train", "chunks",
                fmt::format("must be a multiple of the number of processes ({})", launch.world),
                std::to_string(train.chunks),
                "start 1, 2, 4, 8, ... processes, or raise train.chunks");
}

}  // namespace

void check_share(const config::LabConfig& config, const parallel::Launch& launch) {
  const bool pieces =
      launch.world > 1 || config.train.reduction == config::Reduction::kDeterministic;
  if (pieces && config.model.attention_dropout > 0.0) {
    throw refused("model", "attention_dropout",
                  "must be 0 with several processes or train.reduction: deterministic",
                  fmt::format("{:g}", config.model.attention_dropout),
                  "its masks follow the place of a sample in one process's batch; model.dropout "
                  "and model.mlp_dropout are exact");
  }
  for (const config::Stage& stage : stages(config.train)) {
    parallel::require_divisible(launch, stage.batch / config.train.accumulate,
                                "the samples of train.batch / train.accumulate are shared");
  }
  check_chunks(config.train, launch);
}

}  // namespace posenc::train
