#include "train/session_setup.h"

#include <fmt/format.h>

#include <algorithm>

#include "posenc/core/error.h"
#include "train/preflight.h"
#include "train/schedules.h"
#include "train/trainer.h"

namespace posenc::train {

EvalSetting eval_setting(const config::LabConfig& config, at::Device device,
                         const StopRequest& stop) {
  EvalSetting setting;
  setting.config = config.eval;
  setting.train = config.train;
  setting.train_length = train_length(config.train);
  setting.longest = longest_length(config.model);
  if (config.train.positions == config::PositionPolicy::kSubset) {
    const std::int64_t range = config.train.position_range;
    setting.longest = setting.longest < 0 ? range : std::min(setting.longest, range);
  }
  setting.device = device;
  setting.stop = stop.flag();
  return setting;
}

std::vector<Evaluations> evaluations_to_come(const config::LabConfig& config, bool evaluate,
                                             const tasks::Task& task, const EvalSetting& setting) {
  Evaluations last{setting, eval_cases(task, setting)};  // a wrong name of an axis is said here
  if (!evaluate) last.cases.clear();
  if (config.train.eval_every == 0) return {last};
  Evaluations on_the_way{setting, cases_on_the_way(task, setting)};
  on_the_way.setting.split = tasks::Split::kValidation;
  return {last, on_the_way};
}

std::unique_ptr<tasks::Task> checked_task(const config::LabConfig& config, bool evaluate,
                                          runs::Progress& progress, const StopRequest& stop) {
  auto task = tasks::make_task(config.task);
  if (config.train.stop_at > 0.0 && task->info().metric == Metric::kBitsPerByte) {
    throw Error(ErrorKind::kConflict, {.scope = "train",
                                       .key = "stop_at",
                                       .rule = "is an accuracy, and the task is scored in bits",
                                       .value = fmt::format("{}", config.train.stop_at),
                                       .hint = "use train.patience"});
  }
  const EvalSetting setting = eval_setting(config, device_of(config.train), stop);
  for (const auto& [of_split, cases] : evaluations_to_come(config, evaluate, *task, setting)) {
    const std::string note = check_cases(config, *task, of_split, cases, config::Work::kTraining);
    if (!note.empty()) progress.message(note);
  }
  if (evaluate) {
    const std::string note = check_schedules(config);
    if (!note.empty()) progress.message(note);
  }
  if (const std::string data = task->data_summary(); !data.empty()) progress.message(data);
  if (const std::string warning = task->warning(); !warning.empty()) {
    progress.message("warning: " + warning);
  }
  return task;
}

}  // namespace posenc::train
