// A trained RoPE model evaluated at lengths beyond its own under other frequency schedules, each stretched to
// the length: what `posenc eval --schedule` and eval.schedules do.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/load.h"
#include "posenc/encodings/schedule.h"
#include "runs/checkpoints.h"
#include "train/evaluate.h"

namespace posenc::train {

// The schedule of that name for rows of `factor` times the trained length; an Error for an unknown name.
Schedule stretched(const std::string& name, double factor, std::int64_t trained,
                   std::int64_t pairs);

// Every RoPE of the model under the schedule; an Error where the model has none.
config::ModelConfig under_schedule(config::ModelConfig model, const std::string& name,
                                   double factor, std::int64_t trained);

// eval.schedules as far as the model can follow them: without RoPE there are none.
std::vector<std::string> schedules_of(const config::LabConfig& config);

// Before any work: an Error where the model cannot be stretched by one of eval.schedules. The result says that
// they have no effect where that is so, else it is empty.
std::string check_schedules(const config::LabConfig& config);

// A condition, and the schedule to evaluate it under; empty: the model's own.
struct ScheduledCase {
  EvalCase condition;
  std::string schedule;
};

enum class OwnSchedule { kKept, kReplaced };

// Conditions longer than the trained length under each schedule, after the model's own or in place of it.
std::vector<ScheduledCase> scheduled_cases(const std::vector<EvalCase>& cases,
                                           const EvalSetting& setting,
                                           const std::vector<std::string>& schedules,
                                           OwnSchedule own = OwnSchedule::kKept);

// The model of a checkpoint as the config has it, for rows of c's length under c's schedule.
model::Transformer model_for(const config::LabConfig& config, const tasks::Task& task,
                             const runs::Loaded& checkpoint, const ScheduledCase& c,
                             const EvalSetting& setting);

// The same with the weights of another model.
model::Transformer model_for(const config::LabConfig& config, const tasks::Task& task,
                             const model::Transformer& weights, const ScheduledCase& c,
                             const EvalSetting& setting);

// Puts the schedule into the row and into the name of its scores.
void name_schedule(EvalRow& row, const std::string& schedule);

using ModelFor = std::function<model::Transformer(const ScheduledCase&)>;

// All of them, in order; nothing where `stop` was raised on the way.
std::optional<std::vector<EvalRow>> evaluate_scheduled(
    const ModelFor& model_of, const tasks::Task& task, const EvalSetting& setting,
    const std::vector<ScheduledCase>& cases, const std::function<void(const EvalRow&)>& done = {});

}  // namespace posenc::train
