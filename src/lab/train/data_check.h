// A run goes on with the text that it was trained on, or not at all.
#pragma once

#include "core/value.h"
#include "runs/run_directory.h"
#include "tasks/task.h"

namespace posenc::train {

// For environment.json: the hash of the files that the task reads; nothing for tasks that read none.
Value::Map data_facts(const tasks::Task& task);

// Throws an Error where the files have changed since the run began: training text may be held out now.
void require_same_data(const runs::RunDirectory& run, const tasks::Task& task);

}  // namespace posenc::train
