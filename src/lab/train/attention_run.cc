#include "train/attention_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/bind.h"
#include "runs/run_directory.h"
#include "train/attention_observer.h"
#include "train/evaluate.h"
#include "train/samples.h"
#include "train/text_tokens.h"
#include "train/trainer.h"

namespace posenc::train {
namespace {

constexpr const char* kScope = "attention";
constexpr double kMostWeights = 268435456.0;  // 2^28: a file of 0.5 GB, or 2 GB with CoPE
constexpr std::int64_t kKeptWeights = 1 << 18;

Error range_error(const std::string& key, const std::string& rule, std::int64_t value) {
  return {ErrorKind::kOutOfRange,
          {.scope = kScope, .key = key, .rule = rule, .value = std::to_string(value), .hint = ""}};
}

std::string checked_axis(const tasks::Task& task, const std::string& wanted) {
  std::vector<std::string_view> names;
  const auto axes = task.axes();
  for (const tasks::Axis& axis : axes) {
    if (wanted.empty() ? axis.in_domain : axis.name == wanted) return axis.name;
    names.push_back(axis.name);
  }
  throw Error(ErrorKind::kUnknownKey, {.scope = kScope,
                                       .key = "--axis",
                                       .rule = "must be an axis of " + task.info().name,
                                       .value = "'" + wanted + "'",
                                       .hint = suggestion(wanted, names)});
}

void check_size(const config::LabConfig& config, std::int64_t length) {
  const std::int64_t longest = longest_length(config.model);
  if (longest >= 0 && length > longest) {
    throw range_error("--length",
                      fmt::format("must be <= {}, where the table of positions ends", longest),
                      length);
  }
  const double heads = static_cast<double>(config.model.layers * config.model.heads);
  if (heads * static_cast<double>(length) * static_cast<double>(length) <= kMostWeights) return;
  throw range_error("--length",
                    fmt::format("must be <= {} for {} maps to fit into a file",
                                static_cast<std::int64_t>(std::sqrt(kMostWeights / heads)), heads),
                    length);
}

void check_sample(const tasks::Task& task, const tasks::Condition& condition, std::int64_t sample) {
  if (sample < 0) throw range_error("--sample", "must be >= 0", sample);
  const auto rows = task.rows(condition);
  if (!rows || sample < *rows) return;
  throw range_error("--sample", fmt::format("must be below {}, which there are", *rows), sample);
}

// One row, as evaluate_row draws it.
tasks::Batch drawn(const config::LabConfig& config, const tasks::Task& task,
                   const AttentionQuery& query, tasks::Condition& condition) {
  const std::int64_t trained = config::train_length(config.train);
  condition = {.axis = checked_axis(task, query.axis),
               .length = query.length > 0 ? query.length : trained,
               .train_length = trained,
               .split = tasks::Split::kTest};
  check_size(config, condition.length);
  check_sample(task, condition, query.sample);
  tasks::Batch batch;
  batch.rows = 1;
  task.fill(condition, static_cast<std::uint64_t>(config.eval.seed),
            static_cast<std::uint64_t>(query.sample), batch);
  return batch;
}

// The user's text as a row; each token is scored by the next where the model was trained to say that.
tasks::Batch written(const config::LabConfig& config, const tasks::Task& task,
                     const std::string& text, tasks::Condition& condition) {
  const auto words = text_tokens(config, task);
  const std::vector<std::int64_t> tokens = words->encode(text, kScope);
  condition = {.axis = "text", .length = std::ssize(tokens)};
  check_size(config, condition.length);
  tasks::Batch batch;
  batch.rows = 1;
  batch.length = condition.length;
  batch.tokens.assign(tokens.begin(), tokens.end());
  batch.targets.assign(tokens.size(), tasks::kUnscored);
  if (words->predicts_next()) {
    std::copy(batch.tokens.begin() + 1, batch.tokens.end(), batch.targets.begin());
  }
  return batch;
}

void describe_row(const tasks::Task& task, const tasks::Batch& batch,
                  runs::AttentionExample& example) {
  for (const std::int32_t token : batch.tokens) {
    example.token_ids.push_back(token);
    example.tokens.push_back(task.token_text(token));
  }
  if (const auto region = task.instruction(batch.tokens)) {
    example.instruction_begin = region->begin;
    example.instruction_end = region->end;
  }
}

// Runs the model, which the layers observe, and notes its answers.
std::vector<runs::ScoredPlace> answers(model::Transformer& model, const tasks::Task& task,
                                       const tasks::Batch& batch) {
  const Samples samples = to_samples(batch, 0, 1, at::kCPU);
  const at::Tensor logits = model->forward(samples.tokens).squeeze(0);
  std::vector<runs::ScoredPlace> places;
  for (std::int64_t i = 0; i < samples.scored(); ++i) {
    const std::int64_t place = samples.places[i].item<std::int64_t>();
    const auto word = [&](std::int64_t token) {
      // A model may have rows for tokens that the task does not.
      if (token >= task.info().vocabulary) return fmt::format("#{}", token);
      return task.token_text(static_cast<std::int32_t>(token));
    };
    places.push_back({place, word(samples.targets[i].item<std::int64_t>()),
                      word(logits[place].argmax().item<std::int64_t>())});
  }
  return places;
}

}  // namespace

bool has_weights(const config::ModelConfig& model) {
  return model.attention == config::AttentionKind::kSoftmax;
}

std::int64_t kept_length(const config::LabConfig& config) {
  const double most = std::sqrt(static_cast<double>(kKeptWeights) /
                                static_cast<double>(config.model.layers * config.model.heads));
  return std::min(config::train_length(config.train),
                  std::max<std::int64_t>(1, static_cast<std::int64_t>(most)));
}

runs::AttentionRecord attention_of(const config::Loaded& loaded, const tasks::Task& task,
                                   const runs::Loaded& checkpoint, const AttentionQuery& query) {
  const config::LabConfig& config = loaded.config;
  if (!has_weights(config.model)) {
    throw Error(ErrorKind::kUnsupported, {.scope = kScope,
                                          .key = "model.attention",
                                          .rule = "must be softmax",
                                          .value = "linear",
                                          .hint = "linear attention has no weights to look at"});
  }
  if (config.train.positions == config::PositionPolicy::kSubset) {
    throw Error(
        ErrorKind::kUnsupported,
        {.scope = kScope,
         .key = "train.positions",
         .rule = "must not be subset",
         .value = "subset",
         .hint = "maps are of positions 0, 1, 2, ..., which such a model is not evaluated at"});
  }
  tasks::Condition condition;
  const tasks::Batch batch = query.text ? written(config, task, *query.text, condition)
                                        : drawn(config, task, query, condition);
  const at::NoGradGuard quiet;
  const ObservedLayers layers = std::make_shared<std::vector<ObservedLayer>>();
  model::Transformer model(config.model, model_context(config, task), observing(layers));
  Trainer::load_weights(model, checkpoint);
  model->eval();
  runs::AttentionRecord record{.example = {.task = task.info().name,
                                           .axis = condition.axis,
                                           .length = condition.length,
                                           .sample = query.sample,
                                           .seed = config.eval.seed,
                                           .step = checkpoint.step,
                                           .config_hash = loaded.hash,
                                           .causal = !task.info().bidirectional,
                                           .window = config.model.window},
                               .heads = config.model.heads,
                               .layers = {}};
  describe_row(task, batch, record.example);
  record.example.scored = answers(model, task, batch);
  for (std::size_t l = 0; l < layers->size(); ++l) {
    record.example.encodings.push_back(
        config::layer_encoding(config.model, static_cast<std::int64_t>(l)));
    record.layers.push_back(exact_attention((*layers)[l]));
  }
  return record;
}

std::filesystem::path attention_run(const std::filesystem::path& run, const AttentionQuery& query,
                                    bool best, runs::Progress& progress,
                                    const std::filesystem::path& out) {
  const auto directory = runs::RunDirectory::open(run, runs::Access::kRead);
  const config::Loaded loaded = config::load_config(directory.config_path().string());
  const auto task = tasks::make_task(loaded.config.task);
  const runs::Loaded checkpoint = runs::require_checkpoint(run, best, progress);
  const runs::AttentionRecord record = attention_of(loaded, *task, checkpoint, query);
  auto path = out.empty() ? runs::attention_path(run, record.example.axis, record.example.length,
                                                 record.example.sample, best)
                          : out;
  runs::write_attention(path, record);
  return path;
}

}  // namespace posenc::train
