#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/bind.h"
#include "lab/data_check.h"
#include "lab/preflight.h"
#include "lab/results.h"
#include "lab/run.h"
#include "lab/session.h"
#include "lab/session_setup.h"
#include "posenc/encodings/spec.h"
#include "runs/environment.h"

namespace posenc::lab {
namespace {

constexpr std::array<std::string_view, 5> kSchedules = {"linear", "ntk", "dynamic", "yarn",
                                                        "longrope"};

// Pair i stretched by factor^(2i / (d - 2)), as NTK-aware scaling does it: where a search for LongRoPE's
// factors starts.
std::vector<double> pair_factors(std::int64_t pairs, double factor) {
  std::vector<double> factors;
  for (std::int64_t i = 0; i < pairs; ++i) {
    const double share = pairs > 1 ? static_cast<double>(i) / static_cast<double>(pairs - 1) : 1.0;
    factors.push_back(std::pow(factor, share));
  }
  return factors;
}

Schedule stretched(const std::string& name, double factor, std::int64_t trained,
                   std::int64_t pairs) {
  if (name == "linear") return LinearSchedule{.factor = factor};
  if (name == "ntk") return NtkSchedule{.factor = factor};
  if (name == "dynamic") {
    return DynamicSchedule{.factor = factor, .max_position_embeddings = trained};
  }
  if (name == "yarn") {
    YarnSchedule yarn;
    yarn.factor = factor;
    yarn.original_max_position_embeddings = trained;
    return yarn;
  }
  if (name == "longrope") {
    LongRopeSchedule longrope;
    longrope.short_factor = std::vector<double>(static_cast<std::size_t>(pairs), 1.0);
    longrope.long_factor = pair_factors(pairs, factor);
    longrope.original_max_position_embeddings = trained;
    longrope.factor = factor;
    return longrope;
  }
  throw Error(ErrorKind::kUnknownKey, {.scope = "eval",
                                       .key = "--schedule",
                                       .rule = "must be a known name",
                                       .value = "'" + name + "'",
                                       .hint = suggestion(name, kSchedules)});
}

// Every RoPE of the model under the schedule; an Error where there is none.
experiment::ModelConfig under_schedule(experiment::ModelConfig model, const std::string& name,
                                       double factor, std::int64_t trained) {
  bool found = false;
  for (std::string& text : model.encoding) {
    Spec spec = parse_spec(text);
    for (Encoding& e : spec.encodings) {
      auto* rope = std::get_if<Rope>(&e);
      if (rope == nullptr) continue;
      found = true;
      rope->schedule = stretched(name, factor, trained, experiment::head_dim(model) / 2);
    }
    text = to_text(spec);
  }
  if (!found) {
    throw Error(ErrorKind::kConflict, {.scope = "eval",
                                       .key = "--schedule",
                                       .rule = "needs a model with rope",
                                       .value = model.encoding.front(),
                                       .hint = ""});
  }
  return model;
}

class RunEvaluation {
 public:
  RunEvaluation(const std::filesystem::path& path, const EvalOptions& options,
                runs::Progress& progress, const runs::StopRequest& stop)
      : directory_(runs::RunDirectory::open(path, runs::Access::kRead)),
        options_(options),
        progress_(progress),
        loaded_(experiment::load_config(directory_.config_path().string(), options.overrides)),
        task_(tasks::make_task(loaded_.config.task)),
        setting_(eval_setting(loaded_.config, device_of(loaded_.config.train), stop)) {
    // Who names other text on purpose evaluates on it.
    const bool other_task = std::any_of(options.overrides.begin(), options.overrides.end(),
                                        [](const std::string& o) { return o.starts_with("task"); });
    if (!other_task) require_same_data(directory_, *task_);
    cases_ = eval_cases(*task_, setting_);
    const std::string note =
        check_cases(loaded_.config, *task_, setting_, cases_, experiment::Work::kEvaluation);
    if (!note.empty()) progress_.message(note);
    std::vector<std::string> words;
    const runs::CheckpointReader checkpoints(directory_.checkpoints_path());
    checkpoint_ = options.best ? checkpoints.best(&words) : checkpoints.load_latest(&words);
    for (const std::string& word : words) progress_.message(word);
    if (!checkpoint_) {
      throw Error(ErrorKind::kIo,
                  {.scope = path.string(),
                   .key = "",
                   .rule = options.best ? "has no checkpoint with a score" : "has no checkpoint",
                   .value = "",
                   .hint = "train it first: posenc train"});
    }
    setting_.progress = [this](std::int64_t done, std::int64_t all) {
      runs::ProgressState state;
      state.phase = "eval";
      state.step = done;
      state.total = all;
      progress_.update(state);
    };
  }

  std::optional<Evaluated> run() {
    std::vector<EvalRow> rows;
    for (const EvalCase& c : cases_) {
      model::Transformer model = model_for(factor_of(c.length, setting_));
      auto row = evaluate_row(model, *task_, c, setting_);
      if (!row) return std::nullopt;
      const bool stretched_here = factor_of(c.length, setting_) > 1.0;
      row->schedule = !options_.encoding.empty() ? options_.encoding
                      : stretched_here           ? options_.schedule
                                                 : "";
      progress_.message(row_text(*row, task_->info().metric));
      rows.push_back(std::move(*row));
    }
    const auto memory = bind_config<Memory>(checkpoint_->state, checkpoint_->path.string());
    const TrainFigures figures{
        .step = memory.step,
        .tokens = memory.tokens,
        .seconds = memory.seconds,
        .data_seconds = memory.data_seconds,
        .peak_memory_bytes = known_bytes("peak_memory_bytes").value_or(runs::peak_resident_bytes()),
        .peak_gpu_bytes = known_bytes("peak_gpu_bytes")};
    Value results = results_value(loaded_, *task_, parameters_, figures, rows);
    return Evaluated{std::move(results), tallies_of(loaded_, std::move(rows))};
  }

 private:
  // What training took, which an evaluation does not know by itself.
  [[nodiscard]] std::optional<std::int64_t> known_bytes(const char* name) const {
    const auto known = directory_.results();
    const Value* member = known ? known->find(name) : nullptr;
    const auto* bytes = member == nullptr ? nullptr : member->get_if<std::int64_t>();
    return bytes == nullptr ? std::nullopt : std::optional(*bytes);
  }
  model::Transformer model_for(double factor) {
    experiment::LabConfig config = loaded_.config;
    if (!options_.encoding.empty()) config.model.encoding = {options_.encoding};
    if (!options_.schedule.empty() && factor > 1.0) {
      config.model =
          under_schedule(config.model, options_.schedule, factor, train_length(config.train));
    }
    validate(config.model, "eval");
    model::Transformer model(config.model, model_context(config, *task_));
    Trainer::load_weights(model, *checkpoint_);
    model->to(setting_.device);
    parameters_ = count_parameters(*model);
    return model;
  }

  runs::RunDirectory directory_;
  EvalOptions options_;
  runs::Progress& progress_;
  experiment::Loaded loaded_;
  std::unique_ptr<tasks::Task> task_;
  EvalSetting setting_;
  std::vector<EvalCase> cases_;
  std::optional<runs::Loaded> checkpoint_;
  std::map<std::string, std::int64_t> parameters_;
};

}  // namespace

void check_schedule(const std::string& name) {
  if (!name.empty()) (void)stretched(name, 2.0, 2, 1);
}

std::optional<Evaluated> evaluate_run(const std::filesystem::path& run, const EvalOptions& options,
                                      runs::Progress& progress, const runs::StopRequest& stop) {
  return RunEvaluation(run, options, progress, stop).run();
}

void keep_results(const runs::RunDirectory& run, const Evaluated& found) {
  runs::write_scores(runs::scores_path(run.path()), found.scores);
  run.write_results(found.results);
  const runs::RunStatus status = run.status();
  const auto last = runs::CheckpointReader(run.checkpoints_path()).load_latest();
  if (status.state == runs::RunState::kFinished || status.state == runs::RunState::kDiverged ||
      !last) {
    return;
  }
  const auto memory = bind_config<Memory>(last->state, last->path.string());
  const auto config = experiment::load_config(run.config_path().string()).config;
  if (!memory.done && memory.step < total_steps(config.train)) return;
  run.set_status({runs::RunState::kFinished, memory.step, "", status.config_hash});
}

}  // namespace posenc::lab
