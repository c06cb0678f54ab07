#include <fmt/format.h>

#include <algorithm>

#include "core/bind.h"
#include "runs/environment.h"
#include "runs/result_events.h"
#include "train/data_check.h"
#include "train/preflight.h"
#include "train/results.h"
#include "train/run.h"
#include "train/schedules.h"
#include "train/session.h"
#include "train/session_setup.h"

namespace posenc::train {
namespace {

class RunEvaluation {
 public:
  RunEvaluation(const std::filesystem::path& path, const EvalOptions& options,
                runs::Progress& progress, const StopRequest& stop)
      : directory_(runs::RunDirectory::open(path, runs::Access::kRead)),
        options_(options),
        progress_(progress),
        loaded_(config::load_config(directory_.config_path().string(), options.overrides)),
        task_(tasks::make_task(loaded_.config.task)),
        setting_(eval_setting(loaded_.config, device_of(loaded_.config.train), stop)) {
    // Who names other text on purpose evaluates on it.
    const bool other_task = std::any_of(options.overrides.begin(), options.overrides.end(),
                                        [](const std::string& o) { return o.starts_with("task"); });
    if (!other_task) require_same_data(directory_, *task_);
    const std::vector<EvalCase> cases = eval_cases(*task_, setting_);
    const std::string note =
        check_cases(loaded_.config, *task_, setting_, cases, config::Work::kEvaluation);
    if (!note.empty()) progress_.message(note);
    choose_cases(cases);
    if (!task_->warning().empty()) progress_.message("warning: " + task_->warning());
    checkpoint_ = runs::require_checkpoint(path, options.best, progress_);
    setting_.progress = [this](std::int64_t done, std::int64_t all) {
      runs::ProgressState state;
      state.phase = "eval";
      state.step = done;
      state.total = all;
      progress_.update(state);
    };
  }

  std::optional<Evaluated> run() {
    auto rows = evaluate_scheduled(
        [this](const ScheduledCase& c) { return model_of(c); }, *task_, setting_, cases_,
        [this](const EvalRow& row) { progress_.message(row_text(row, task_->info().metric)); });
    if (!rows) return std::nullopt;
    // Another spec stands in the place of a schedule: the figures are not the model's own.
    for (EvalRow& row : *rows) {
      if (!options_.encoding.empty()) name_schedule(row, options_.encoding);
    }
    const auto memory = bind_config<Memory>(checkpoint_->state, checkpoint_->path.string());
    const TrainFigures figures{
        .step = memory.step,
        .tokens = memory.tokens,
        .seconds = memory.seconds,
        .data_seconds = memory.data_seconds,
        .peak_memory_bytes = known_bytes("peak_memory_bytes").value_or(runs::peak_resident_bytes()),
        .peak_gpu_bytes = known_bytes("peak_gpu_bytes")};
    Value results = results_value(loaded_, *task_, parameters_, figures, *rows);
    return Evaluated{std::move(results), tallies_of(loaded_, std::move(*rows))};
  }

 private:
  // What training took, which an evaluation does not know by itself.
  [[nodiscard]] std::optional<std::int64_t> known_bytes(const char* name) const {
    const auto known = directory_.results();
    const Value* member = known ? known->find(name) : nullptr;
    const auto* bytes = member == nullptr ? nullptr : member->get_if<std::int64_t>();
    return bytes == nullptr ? std::nullopt : std::optional(*bytes);
  }
  // --schedule and --encoding ask for one way to evaluate; eval.schedules is for the model as it is.
  void choose_cases(const std::vector<EvalCase>& cases) {
    if (!options_.schedule.empty()) {
      cases_ = scheduled_cases(cases, setting_, {options_.schedule}, OwnSchedule::kReplaced);
      return;
    }
    if (!options_.encoding.empty()) {
      cases_ = scheduled_cases(cases, setting_, {});
      return;
    }
    const std::string note = check_schedules(loaded_.config);
    if (!note.empty()) progress_.message(note);
    cases_ = scheduled_cases(cases, setting_, schedules_of(loaded_.config));
  }
  model::Transformer model_of(const ScheduledCase& c) {
    config::LabConfig config = loaded_.config;
    if (!options_.encoding.empty()) config.model.encoding = {options_.encoding};
    model::Transformer model = model_for(config, *task_, *checkpoint_, c, setting_);
    if (parameters_.empty() || c.schedule.empty()) parameters_ = count_parameters(*model);
    return model;
  }

  runs::RunDirectory directory_;
  EvalOptions options_;
  runs::Progress& progress_;
  config::Loaded loaded_;
  std::unique_ptr<tasks::Task> task_;
  EvalSetting setting_;
  std::vector<ScheduledCase> cases_;
  std::optional<runs::Loaded> checkpoint_;
  std::map<std::string, std::int64_t> parameters_;
};

// A file of its own for TensorBoard; one that says that nothing of the training is discarded.
void note_results(const runs::RunDirectory& run, const Value& results) {
  runs::EventWriter events(run.path(), *results.find("step")->get_if<std::int64_t>());
  runs::add_result_events(events, config::load_config(run.config_path().string()).tree, results);
  events.flush();
}

}  // namespace

void check_schedule(const std::string& name) {
  if (!name.empty()) (void)stretched(name, 2.0, 2, 1);
}

std::optional<Evaluated> evaluate_run(const std::filesystem::path& run, const EvalOptions& options,
                                      runs::Progress& progress, const StopRequest& stop) {
  return RunEvaluation(run, options, progress, stop).run();
}

void keep_results(const runs::RunDirectory& run, const Evaluated& found) {
  runs::write_scores(runs::scores_path(run.path()), found.scores);
  run.write_results(found.results);
  note_results(run, found.results);
  const runs::RunStatus status = run.status();
  const auto last = runs::CheckpointReader(run.checkpoints_path()).load_latest();
  if (status.state == runs::RunState::kFinished || status.state == runs::RunState::kDiverged ||
      !last) {
    return;
  }
  const auto memory = bind_config<Memory>(last->state, last->path.string());
  const auto config = config::load_config(run.config_path().string()).config;
  if (!memory.done && memory.step < total_steps(config.train)) return;
  run.set_status({runs::RunState::kFinished, memory.step, "", status.config_hash});
}

}  // namespace posenc::train
