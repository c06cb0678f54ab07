// Checks everything that can fail at evaluation before the first step, so that no training is lost to a
// corpus without held-out files or a length that does not fit into memory.
#pragma once

#include <string>
#include <vector>

#include "config/memory.h"
#include "train/evaluate.h"

namespace posenc::train {

// Checks memory for training and for each case, and draws a row of each, without a model. Throws an Error that
// names the field to change. Returns a sentence about lengths that will be skipped, or "".
std::string check_cases(const config::LabConfig& config, const tasks::Task& task,
                        const EvalSetting& setting, const std::vector<EvalCase>& cases,
                        config::Work work);

// One row of the longest case that takes about a second at most, through the model.
void try_model(model::Transformer& model, const tasks::Task& task, const EvalSetting& setting,
               const std::vector<EvalCase>& cases);

}  // namespace posenc::train
