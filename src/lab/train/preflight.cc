#include "train/preflight.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "core/failure.h"
#include "train/machine.h"
#include "train/samples.h"

namespace posenc::train {
namespace {

// Scores of one row: what two cores compute in about a second.
constexpr double kScoresToTry = 268435456.0;

bool fits_table(const EvalCase& c, const EvalSetting& setting) {
  return setting.longest < 0 || c.length <= setting.longest;
}

std::string length_field(const EvalSetting& setting) {
  if (!setting.config.conditions.empty()) return "eval.conditions";
  return setting.config.lengths.front() > 0 ? "eval.lengths" : "eval.factors";
}

// As training draws its first row: an Error where there is nothing to train on.
config::DataShape data_shape(const tasks::Task& task, const EvalSetting& setting) {
  tasks::Batch batch;
  batch.rows = 1;
  task.fill({.axis = "train", .length = setting.train_length, .train_length = setting.train_length},
            0, 0, batch);
  const auto scored = std::count_if(batch.targets.begin(), batch.targets.end(),
                                    [](std::int32_t t) { return t != tasks::kUnscored; });
  return {.vocabulary = task.info().vocabulary,
          .scored_share = static_cast<double>(scored) / static_cast<double>(batch.targets.size())};
}

void draw_row(const tasks::Task& task, const EvalCase& c, const EvalSetting& setting,
              tasks::Batch& batch) {
  const tasks::Condition condition = condition_of(c, setting);
  const std::string place = fmt::format("axis {} at length {}", c.axis, c.length);
  const std::string fields = setting.split == tasks::Split::kValidation
                                 ? "train.eval_every"
                                 : length_field(setting) + ", eval.axes";
  const std::string hint = fmt::format("needed to evaluate {} ({})", place, fields);
  std::int64_t rows = 1;
  batch.rows = 1;
  try {
    rows = task.rows(condition).value_or(1);
    if (rows > 0) task.fill(condition, static_cast<std::uint64_t>(setting.config.seed), 0, batch);
  } catch (const Error& e) {
    throw Error(e.kind(), {.scope = e.scope(),
                           .key = e.key(),
                           .rule = e.rule(),
                           .value = e.value(),
                           .hint = e.hint().empty() ? hint : e.hint() + "; " + hint});
  }
  if (rows > 0) return;
  throw Error(ErrorKind::kOutOfRange,
              {.scope = "eval",
               .key = length_field(setting).substr(5),
               .rule = fmt::format("must leave samples, and {} has none", place),
               .value = "",
               .hint = "use shorter lengths or other axes"});
}

// What is evaluated and what is left out because the model has no positions for it.
std::string skipped_text(const std::vector<EvalCase>& cases, const EvalSetting& setting) {
  std::set<std::int64_t> skipped;
  for (const EvalCase& c : cases) {
    if (!fits_table(c, setting)) skipped.insert(c.length);
  }
  const bool all = std::none_of(cases.begin(), cases.end(),
                                [&](const EvalCase& c) { return fits_table(c, setting); });
  if (all && !cases.empty()) {
    throw Error(ErrorKind::kConflict,
                {.scope = "eval",
                 .key = length_field(setting).substr(5),
                 .rule = fmt::format("must have a length within the table of positions, which ends "
                                     "at {}",
                                     setting.longest),
                 .value = fmt::format("{}", fmt::join(skipped, ", ")),
                 .hint = "use shorter lengths, or raise max_positions"});
  }
  if (skipped.empty()) return "";
  return fmt::format("lengths that evaluations skip, past the table of positions ({}): {}",
                     setting.longest, fmt::join(skipped, ", "));
}

}  // namespace

std::string check_cases(const config::LabConfig& config, const tasks::Task& task,
                        const EvalSetting& setting, const std::vector<EvalCase>& cases,
                        config::Work work) {
  std::string note = skipped_text(cases, setting);
  std::vector<EvalCase> drawn;
  std::vector<std::int64_t> lengths;
  for (const EvalCase& c : cases) {
    if (!fits_table(c, setting)) continue;
    drawn.push_back(c);
    lengths.push_back(c.length);
  }
  if (const auto available = available_bytes(setting.device)) {
    const bool shared = setting.ranks != nullptr && setting.device.is_cpu();
    const int here = shared ? setting.ranks->launch().local_world : 1;
    const int world = setting.ranks != nullptr ? setting.ranks->world() : 1;
    require_memory(config, data_shape(task, setting), lengths, *available / here, work, world);
  }
  tasks::Batch batch;
  for (const EvalCase& c : drawn) draw_row(task, c, setting, batch);
  return note;
}

void try_model(model::Transformer& model, const tasks::Task& task, const EvalSetting& setting,
               const std::vector<EvalCase>& cases) {
  const auto& config = model->config();
  const double maps = static_cast<double>(config.layers * config.heads);
  const EvalCase* longest = nullptr;
  for (const EvalCase& c : cases) {
    const auto length = static_cast<double>(c.length);
    if (!fits_table(c, setting) || maps * length * length > kScoresToTry) continue;
    if (longest == nullptr || c.length > longest->length) longest = &c;
  }
  if (longest == nullptr) return;
  tasks::Batch batch;
  draw_row(task, *longest, setting, batch);
  const at::NoGradGuard quiet;
  const bool was_training = model->is_training();
  model->eval();
  try {
    (void)model->forward(to_samples(batch, 0, 1, setting.device).tokens);
  } catch (const c10::Error& e) {
    throw Error(ErrorKind::kOutOfRange,
                {.scope = "eval",
                 .key = length_field(setting).substr(5),
                 .rule = fmt::format("has length {}, which the model cannot evaluate: {}",
                                     longest->length, failure_text(e)),
                 .value = "",
                 .hint = "use shorter lengths, or change model.encoding"});
  }
  model->train(was_training);
}

}  // namespace posenc::train
