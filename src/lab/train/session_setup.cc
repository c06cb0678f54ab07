#include "train/session_setup.h"

#include <fmt/format.h>

#include <algorithm>

#include "posenc/core/error.h"
#include "train/preflight.h"
#include "train/schedules.h"
#include "train/trainer.h"

namespace posenc::train {
namespace {

// The config with the rows that this process computes at the same time, for the estimate of its memory.
config::LabConfig computed_together(config::LabConfig config, const parallel::Ranks* ranks) {
  const std::int64_t pieces = pieces_of(config.train, ranks).value_or(Pieces{}).all;
  config.train.batch = std::max<std::int64_t>(1, config.train.batch / pieces);
  for (config::Stage& stage : config.train.stages) {
    stage.batch = std::max<std::int64_t>(1, stage.batch / pieces);
  }
  return config;
}

}  // namespace

EvalSetting eval_setting(const config::LabConfig& config, at::Device device,
                         const StopRequest& stop, parallel::Ranks* ranks) {
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
  setting.ranks = ranks;
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
                                          runs::Progress& progress, const StopRequest& stop,
                                          parallel::Ranks* ranks) {
  auto task = tasks::make_task(config.task);
  if (config.train.stop_at > 0.0 && in_bits(task->info().metric)) {
    throw Error(ErrorKind::kConflict, {.scope = "train",
                                       .key = "stop_at",
                                       .rule = "is an accuracy, and the task is scored in bits",
                                       .value = fmt::format("{}", config.train.stop_at),
                                       .hint = "use train.patience"});
  }
  const EvalSetting setting = eval_setting(config, device_of(config.train), stop, ranks);
  const config::LabConfig computed = computed_together(config, ranks);
  for (const auto& [of_split, cases] : evaluations_to_come(config, evaluate, *task, setting)) {
    const std::string note = check_cases(computed, *task, of_split, cases, config::Work::kTraining);
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
