// The end of a run for TensorBoard: its results by condition, and its config as hyperparameters, which the HPARAMS tab shows
// as a table with a row per run.
#pragma once

#include "core/value.h"
#include "runs/events.h"

namespace posenc::runs {

// `config`: the resolved config as a tree; `results`: as results.json has them.
void add_result_events(EventWriter& events, const Value& config, const Value& results);

}  // namespace posenc::runs
