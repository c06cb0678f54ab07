#include "train/session.h"

#include <fmt/format.h>
#include <torch/version.h>

#include <cmath>

#include "config/init_from.h"
#include "core/bind.h"
#include "core/cancellation.h"
#include "core/failure.h"
#include "runs/environment.h"
#include "train/attention_run.h"
#include "train/data_check.h"
#include "train/init_weights.h"
#include "train/machine.h"
#include "train/preflight.h"
#include "train/schedules.h"
#include "train/session_setup.h"
#include "train/values.h"

namespace posenc::train {
namespace {

using runs::RunState;

double ratio(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

Session::Session(const config::Loaded& loaded, const TrainOptions& options,
                 runs::Progress& progress, const StopRequest& stop)
    : loaded_(loaded),
      options_(options),
      progress_(progress),
      stop_(stop),
      task_(checked_task(loaded.config, options.evaluate, progress, stop, options.ranks)),
      trainer_(loaded.config, *task_, {}, {}, options.ranks) {
  const EvalSetting setting = eval_setting(loaded.config, trainer_.device(), stop);
  for (const auto& [of_split, cases] :
       evaluations_to_come(loaded.config, options.evaluate, *task_, setting)) {
    try_model(trainer_.model(), *task_, of_split, cases);
  }
  if (options.ranks != nullptr) {
    options.ranks->require_same("data", to_json({Value::Data(data_facts(*task_))}),
                                "all ranks must read the same files");
  }
  if (leads()) open_directory();
  take_up_checkpoint();
}

Session::~Session() {
  if (options_.ranks != nullptr) options_.ranks->set_note({});
}

void Session::open_directory() {
  resumes_ = runs::RunDirectory::exists(options_.out) && options_.resume;
  if (resumes_) {
    take_up();
  } else {
    Value::Map facts = machine_facts(trainer_.device());
    for (auto& fact : take_initial_weights()) facts.push_back(std::move(fact));
    for (auto& fact : data_facts(*task_)) facts.push_back(std::move(fact));
    if (options_.ranks != nullptr) {
      facts.push_back({"processes", integer(options_.ranks->world())});
    }
    const runs::EnvironmentInput input{.command_line = options_.command_line,
                                       .seed = loaded_.config.seed,
                                       .threads = options_.threads,
                                       .torch_version = TORCH_VERSION,
                                       .more = std::move(facts)};
    directory_ = runs::RunDirectory::create(
        options_.out, {to_yaml(loaded_.tree), loaded_.hash, runs::describe_environment(input)});
  }
  const auto& train = loaded_.config.train;
  checkpoints_.emplace(directory_->checkpoints_path(),
                       runs::Retention{.last = train.keep_last, .best = train.eval_every > 0});
  if (options_.ranks == nullptr) return;
  options_.ranks->set_note([this](const parallel::Failure& failure) {
    directory_->set_status({RunState::kFailed, step_,
                            fmt::format("rank {}: {}", failure.rank, failure.text), loaded_.hash});
  });
}

// Rank 0 reads it; the other ranks need no files.
void Session::take_up_checkpoint() {
  std::optional<runs::Loaded> checkpoint;
  std::vector<std::string> words;
  if (resumes_) checkpoint = checkpoints_->load_latest(&words);
  parallel::Ranks* ranks = options_.ranks;
  if (ranks == nullptr ? checkpoint.has_value() : ranks->any(checkpoint.has_value())) {
    trainer_.load(checkpoint ? &*checkpoint : nullptr);
    Value state = checkpoint ? checkpoint->state : Value();
    if (ranks != nullptr) state = parse_json(ranks->broadcast(to_json(state)), "checkpoint");
    memory_ = bind_config<Memory>(state, "checkpoint");
    saved_step_ = trainer_.steps();
  } else {
    if (resumes_) (void)take_initial_weights();
    trainer_.share_weights();
  }
  step_ = memory_.step;
  if (!leads()) return;
  if (!resumes_) {
    log_.emplace(*directory_);
    return;
  }
  for (const std::string& word : words) progress_.message(word);
  log_.emplace(*directory_, memory_.step);
  note_jobs_at_once();
  progress_.message(fmt::format("goes on from step {}", memory_.step));
}

bool Session::stop_requested() const {
  return options_.ranks == nullptr ? stop_.requested() : stop_agreed_;
}

// Before there is a directory: an Error leaves nothing behind.
Value::Map Session::take_initial_weights() {
  if (loaded_.config.train.init_from.empty()) return {};
  const config::LabConfig& config = loaded_.config;
  config::require_shape_of(config::read_init_source(config.train.init_from), config.model);
  const InitReport report = init_weights(trainer_.model(), config, *task_);
  progress_.message(report.text());
  return report.facts();
}

void Session::take_up() {
  directory_ = runs::RunDirectory::open(options_.out);
  require_same_data(*directory_, *task_);
  const runs::RunStatus status = directory_->status();
  if (status.config_hash == loaded_.hash) return;
  const auto trained = config::load_config(directory_->config_path().string()).config;
  // Of an extension that ended before its first step, only the config is of the longer run.
  if (config_hash(trained) == loaded_.hash) return;
  if (extends(loaded_.config, trained)) {
    if (!extends_exactly(loaded_.config, trained)) {
      throw Error(
          ErrorKind::kConflict,
          {.scope = options_.out.string(),
           .key = "train.steps",
           .rule = "cannot be extended: the steps done would have had another learning rate",
           .value = std::to_string(loaded_.config.train.steps),
           .hint = "extend runs with train.schedule=constant, train.warmup in steps and no "
                   "train.patience; or train into another directory"});
    }
    directory_->write_config(to_yaml(loaded_.tree));
    progress_.message(fmt::format("trains on from {} to {} steps", trained.train.steps,
                                  loaded_.config.train.steps));
    return;
  }
  throw Error(ErrorKind::kConflict,
              {.scope = options_.out.string(),
               .key = "",
               .rule = "holds a run of another config",
               .value = status.config_hash,
               .hint = "train into another directory, or resume with the config of that one"});
}

// Not of a finished run, which is only evaluated: its speed is that of its training.
void Session::note_jobs_at_once() const {
  const runs::RunStatus status = directory_->status();
  if (status.state == RunState::kFinished && status.config_hash == loaded_.hash) return;
  const Value before = directory_->environment();
  const Value now = runs::with_jobs_at_once(before);
  if (!(now == before)) directory_->write_environment(now);
}

void Session::set_status(RunState state, const std::string& message) {
  if (leads()) directory_->set_status({state, memory_.step, message, loaded_.hash});
}

void Session::note_peaks() {
  memory_.peak_memory_bytes = std::max(memory_.peak_memory_bytes, runs::peak_resident_bytes());
  memory_.peak_gpu_bytes =
      std::max(memory_.peak_gpu_bytes, peak_gpu_bytes(trainer_.device()).value_or(0));
}

void Session::save() {
  if (saved_step_ == memory_.step) return;
  note_peaks();
  if (log_) log_->flush();
  trainer_.save(leads() ? &*checkpoints_ : nullptr, Value(Value::Data(all_fields(memory_))),
                score_);
  saved_step_ = memory_.step;
}

Outcome Session::stop_here(const std::string& where) {
  save();
  set_status(RunState::kStopped, where);
  progress_.message(
      fmt::format("stopped {}; saved at step {}, --resume goes on", where, memory_.step));
  return Outcome::kStopped;
}

std::string Session::divergence(const StepReport& report) const {
  if (!std::isfinite(report.loss)) return fmt::format("the loss is {}", report.loss);
  if (!std::isfinite(report.gradient_norm)) {
    return fmt::format("the gradient's norm is {}", report.gradient_norm);
  }
  const double limit = loaded_.config.train.explosion * memory_.first_loss;
  if (memory_.step == 0 || limit <= 0.0 || report.loss <= limit) return "";
  return fmt::format("the loss is {:.4g}, {:.4g} times the first", report.loss,
                     report.loss / memory_.first_loss);
}

void Session::note(const StepReport& report) {
  if (memory_.step == 0) memory_.first_loss = report.loss;
  step_ = ++memory_.step;
  memory_.tokens += report.tokens;
  memory_.seconds += report.seconds;
  memory_.data_seconds += report.data_seconds;
  memory_.loss_sum += report.loss;
  ++memory_.loss_count;
  memory_.scored += report.scored;
  memory_.correct += report.correct;
}

void Session::log_row(const StepReport& report) {
  if (log_)
    log_->add(TrainRow{.step = memory_.step,
                       .loss = memory_.loss_sum / static_cast<double>(memory_.loss_count),
                       .accuracy = ratio(memory_.correct, memory_.scored),
                       .rate = report.rate,
                       .gradient_norm = report.gradient_norm,
                       .tokens = memory_.tokens,
                       .seconds = memory_.seconds,
                       .tokens_per_s = static_cast<double>(memory_.tokens - memory_.logged_tokens) /
                                       std::max(memory_.seconds - memory_.logged_seconds, 1e-9),
                       .norms = trainer_.positional_norms(),
                       .gradient_norms = trainer_.positional_gradient_norms()});
  memory_.loss_sum = 0.0;
  memory_.loss_count = memory_.scored = memory_.correct = 0;
  memory_.logged_seconds = memory_.seconds;
  memory_.logged_tokens = memory_.tokens;
}

void Session::show(const StepReport& report) {
  runs::ProgressState state;
  state.step = memory_.step;
  state.total = total_steps(loaded_.config.train);
  state.loss = report.loss;
  state.accuracy = ratio(report.correct, report.scored);
  state.tokens_per_second = static_cast<double>(report.tokens) / std::max(report.seconds, 1e-9);
  state.memory_bytes = static_cast<double>(runs::resident_bytes());
  progress_.update(state);
}

// The validation samples in domain choose; the other conditions are for curves.
bool Session::evaluate_on_the_way() {
  const auto& train = loaded_.config.train;
  EvalSetting setting = eval_setting(loaded_.config, trainer_.device(), stop_, options_.ranks);
  setting.config.samples = train.eval_samples;
  setting.config.free_running = 0;
  setting.split = tasks::Split::kValidation;
  std::vector<EvalRow> rows;
  for (const EvalCase& c : cases_on_the_way(*task_, setting)) {
    auto row = evaluate_row(trainer_.model(), *task_, c, setting);
    if (!row) return false;
    rows.push_back(std::move(*row));
  }
  for (const EvalRow& row : rows) {
    const bool in_domain = row.axis == "train" && row.length == train_length(train);
    if (log_ && row.skipped.empty()) log_->add(row, task_->info().metric, memory_.step, in_domain);
  }
  note_score(score_of(rows.front(), task_->info().metric));
  return true;
}

void Session::note_score(double score) {
  const auto& train = loaded_.config.train;
  score_ = score;
  saved_step_ = -1;  // a checkpoint of this step does not have the score yet
  memory_.evaluated_step = memory_.step;
  const bool better = score > memory_.best_score;
  memory_.best_score = better ? score : memory_.best_score;
  improved_ = better;
  memory_.since_best = better ? 0 : memory_.since_best + 1;
  const bool enough =
      train.stop_at > 0.0 &&
      (task_->info().metric == Metric::kError ? 1.0 + score : score) >= train.stop_at;
  memory_.done = enough || (train.patience > 0 && memory_.since_best >= train.patience);
}

// Up to the next step after which something is written or saved, and about a second of work at the most.
std::int64_t Session::steps_to_queue() const {
  const auto& train = loaded_.config.train;
  const std::int64_t fast_enough =
      step_seconds_ > 0.0 ? static_cast<std::int64_t>(1.0 / step_seconds_) : 1;
  std::int64_t count = std::min(trainer_.pace().steps, total_steps(train) - memory_.step);
  for (const std::int64_t every : {train.log_every, train.eval_every, train.checkpoint_every}) {
    if (every > 0) count = std::min(count, every - memory_.step % every);
  }
  return std::max<std::int64_t>(1, std::min(count, fast_enough));
}

std::optional<Outcome> Session::advance() {
  std::vector<StepReport> reports;
  try {
    reports = trainer_.run(steps_to_queue(), stop_.flag());
  } catch (const Interrupted&) {
    return stop_here(
        fmt::format("{} in step {}, which is left out", stop_.reason(), memory_.step + 1));
  }
  for (const StepReport& report : reports) {
    if (const auto outcome = take(report)) return outcome;
    stop_agreed_ = stop_agreed_ || report.stops;
  }
  step_seconds_ = reports.back().seconds;
  return std::nullopt;
}

std::optional<Outcome> Session::take(const StepReport& report) {
  const auto& train = loaded_.config.train;
  if (const std::string problem = divergence(report); !problem.empty()) {
    const std::string kept = saved_step_ < 0
                                 ? "no checkpoint was written before"
                                 : fmt::format("the checkpoint of step {} is kept", saved_step_);
    set_status(RunState::kDiverged, fmt::format("at step {}: {}", memory_.step + 1, problem));
    progress_.message(fmt::format("diverged at step {}: {}; {}; try a lower train.lr or train.clip",
                                  memory_.step + 1, problem, kept));
    return Outcome::kDiverged;
  }
  score_.reset();
  note(report);
  show(report);
  if (memory_.step == total_steps(train) || memory_.step % train.log_every == 0) log_row(report);
  return std::nullopt;
}

bool Session::evaluation_due() const {
  const auto& train = loaded_.config.train;
  if (train.eval_every == 0 || memory_.step == memory_.evaluated_step) return false;
  return memory_.step % train.eval_every == 0 || memory_.step == total_steps(train);
}

std::optional<Outcome> Session::train() {
  const auto& train = loaded_.config.train;
  if (options_.ranks != nullptr) stop_agreed_ = options_.ranks->any(stop_.requested());
  for (;;) {
    // Before anything else: a run that was stopped here takes up here.
    if (evaluation_due() && !evaluate_on_the_way()) return stop_here("during an evaluation");
    const bool due = train.checkpoint_every > 0 && memory_.step % train.checkpoint_every == 0;
    if (due || improved_) save();
    improved_ = false;
    if (memory_.done || memory_.step == total_steps(train)) break;
    if (stop_requested()) return stop_here(stop_.reason());
    if (const auto outcome = advance()) return outcome;
  }
  save();
  return std::nullopt;
}

// Attention of the first samples in domain, for the report. The run is complete without it.
void Session::keep_attention() {
  const config::LabConfig& config = loaded_.config;
  if (!options_.evaluate || config.eval.attention_samples == 0 || !has_weights(config.model))
    return;
  const std::int64_t length = kept_length(config);
  try {
    const runs::Loaded checkpoint = checkpoints_->load(memory_.step);
    for (std::int64_t n = 0; n < config.eval.attention_samples && !stop_.requested(); ++n) {
      const auto record =
          attention_of(loaded_, *task_, checkpoint, {.axis = "", .length = length, .sample = n});
      runs::write_attention(
          runs::attention_path(directory_->path(), record.example.axis, length, n), record);
    }
  } catch (const std::exception& e) {
    progress_.message(fmt::format("attention is not kept: {}", failure_text(e)));
  }
}

std::optional<std::vector<EvalRow>> Session::evaluate_at_the_end() {
  EvalSetting setting = eval_setting(loaded_.config, trainer_.device(), stop_, options_.ranks);
  setting.progress = [&](std::int64_t done, std::int64_t all) {
    runs::ProgressState state;
    state.phase = "eval";
    state.step = done;
    state.total = all;
    progress_.update(state);
  };
  const auto model_of = [&](const ScheduledCase& c) {
    return c.schedule.empty() ? trainer_.model()
                              : model_for(loaded_.config, *task_, trainer_.model(), c, setting);
  };
  return evaluate_scheduled(
      model_of, *task_, setting,
      scheduled_cases(eval_cases(*task_, setting), setting, schedules_of(loaded_.config)));
}

void Session::write_results(const std::vector<EvalRow>& rows) {
  note_peaks();
  const std::int64_t gpu = memory_.peak_gpu_bytes;
  TrainFigures figures{.step = memory_.step,
                       .tokens = memory_.tokens,
                       .seconds = memory_.seconds,
                       .data_seconds = memory_.data_seconds,
                       .peak_memory_bytes = memory_.peak_memory_bytes,
                       .peak_gpu_bytes = gpu > 0 ? std::optional(gpu) : std::nullopt};
  config::Loaded evaluated = loaded_;
  if (!options_.evaluate) evaluated.eval_hash.clear();  // of no evaluation, so that sweeps make one
  if (options_.evaluate) {
    runs::write_scores(runs::scores_path(directory_->path()), tallies_of(loaded_, rows));
  }
  const Value results =
      results_value(evaluated, *task_, count_parameters(*trainer_.model()), figures, rows);
  directory_->write_results(results);
  if (log_ && options_.evaluate) log_->add_results(loaded_.tree, results);
  keep_attention();
}

Outcome Session::evaluate_and_finish() {
  std::vector<EvalRow> rows;
  if (options_.evaluate) {
    auto found = evaluate_at_the_end();
    if (!found) return stop_here("during the last evaluation");
    rows = std::move(*found);
  }
  if (leads()) write_results(rows);
  set_status(RunState::kFinished, memory_.done ? "stopped early: good enough or no better" : "");
  progress_.finish();
  for (const EvalRow& row : rows) progress_.message(row_text(row, task_->info().metric));
  return Outcome::kFinished;
}

Outcome Session::run() {
  set_status(RunState::kRunning, "");
  bool trained = false;
  try {
    if (const auto outcome = train()) return *outcome;
    trained = true;
    return evaluate_and_finish();
  } catch (const std::exception& e) {
    if (trained && leads()) {
      progress_.message(fmt::format("the evaluation failed; all steps are saved: posenc eval {}",
                                    options_.out.string()));
    }
    // The directory says what happened, if it still can; the caller says it in any case.
    try {
      set_status(RunState::kFailed, failure_text(e));
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch)
    }
    throw;
  }
}

Outcome train_run(const config::Loaded& loaded, const TrainOptions& options,
                  runs::Progress& progress, const StopRequest& stop) {
  return Session(loaded, options, progress, stop).run();
}

}  // namespace posenc::train
