#include "train/generate.h"

#include <fmt/format.h>
#include <torch/cuda.h>

#include <cmath>

#include "core/plain_text.h"
#include "core/value.h"
#include "posenc/core/rng.h"
#include "runs/run_directory.h"
#include "train/init_weights.h"
#include "train/mixed_precision.h"
#include "train/text_tokens.h"
#include "train/trainer.h"

namespace posenc::train {
namespace {

constexpr const char* kScope = "generate";

// The place in the distribution that a uniform number falls to; float64, so that every machine draws the same.
std::int64_t drawn(const at::Tensor& logits, double temperature, Rng& rng) {
  const at::Tensor wide = logits.to(at::kDouble) / temperature;
  const at::Tensor sums = at::softmax(wide, -1).cumsum(-1);
  const auto* sum = sums.data_ptr<double>();
  const std::int64_t last = sums.numel() - 1;
  const double place = rng.uniform() * sum[last];
  std::int64_t token = 0;
  while (token < last && sum[token] <= place) ++token;
  return token;
}

std::int64_t chosen(const at::Tensor& logits, const Sampling& sampling, Rng& rng) {
  if (sampling.temperature > 0.0) return drawn(logits, sampling.temperature, rng);
  return logits.argmax().item<std::int64_t>();
}

Error refused(const std::string& key, const std::string& rule, const std::string& value,
              const std::string& hint) {
  return {ErrorKind::kUnsupported,
          {.scope = kScope, .key = key, .rule = rule, .value = value, .hint = hint}};
}

void check(const config::LabConfig& config, const tasks::Task& task) {
  if (task.info().bidirectional) {
    throw refused("task", "must be one of a causal model", config::task_name(config),
                  "only a causal model can continue a text");
  }
  if (config.train.positions == config::PositionPolicy::kSubset) {
    throw refused("train.positions", "must not be subset", "subset",
                  "such a model is not trained on positions 0, 1, 2, ...");
  }
}

void check_length(const config::ModelConfig& model, std::int64_t prompt, std::int64_t more) {
  const std::int64_t longest = config::longest_length(model);
  if (longest < 0 || prompt + more <= longest) return;
  throw Error(ErrorKind::kOutOfRange,
              {.scope = kScope,
               .key = "--tokens",
               .rule = fmt::format("must be at most {}: the table of positions ends at {}",
                                   std::max<std::int64_t>(0, longest - prompt), longest),
               .value = std::to_string(more),
               .hint = "write a shorter prompt, or raise max_positions"});
}

// A run of a GPU can be tried on a machine without one.
config::TrainConfig here(config::TrainConfig train) {
  if (train.device == config::Device::kCpu || torch::cuda::is_available()) return train;
  train.device = config::Device::kCpu;
  train.precision = config::TrainPrecision::kFloat32;
  return train;
}

}  // namespace

std::vector<std::int64_t> generate_tokens(model::Transformer& model,
                                          const std::vector<std::int64_t>& prompt,
                                          std::int64_t count, std::int64_t vocabulary,
                                          const Sampling& sampling, Decoding decoding,
                                          const StopRequest* stop) {
  const at::NoGradGuard quiet;
  const at::Device device = model->parameters().front().device();
  Rng rng(static_cast<std::uint64_t>(sampling.seed));
  std::vector<std::int64_t> all = prompt;
  std::vector<nn::KeyValueCache> caches;
  std::size_t known = 0;  // tokens that the caches hold
  for (std::int64_t n = 0; n < count && !(stop != nullptr && stop->requested()); ++n) {
    const std::vector<std::int64_t> next(all.begin() + static_cast<std::ptrdiff_t>(known),
                                         all.end());
    const at::Tensor given = at::tensor(next, at::kLong).unsqueeze(0).to(device);
    const at::Tensor hidden =
        decoding == Decoding::kCache ? model->decode(given, caches) : model->hidden(given);
    const at::Tensor last = hidden.narrow(1, hidden.size(1) - 1, 1);
    const at::Tensor logits = model->logits(last).flatten().narrow(0, 0, vocabulary);
    if (decoding == Decoding::kCache) known = all.size();
    all.push_back(chosen(logits.to(at::kCPU), sampling, rng));
  }
  return {all.begin() + std::ssize(prompt), all.end()};
}

std::string Generated::json(const std::string& prompt) const {
  Value::Map map;
  const auto add = [&](const char* key, Value value) {
    map.push_back({key, std::move(value), {}});
  };
  const auto list = [](const std::vector<std::int64_t>& all) {
    Value::List values;
    for (const std::int64_t token : all) values.emplace_back(Value::Data(token));
    return Value(Value::Data(std::move(values)));
  };
  add("prompt", Value::of_string(printable(prompt)));
  add("text", Value::of_string(printable(text)));
  add("prompt_tokens", list(prompt_tokens));
  add("tokens", list(tokens));
  add("decoding", Value::of_string(decoding));
  add("step", Value(Value::Data(step)));
  return to_json(Value(Value::Data(std::move(map))));
}

namespace {

// What a prompt is continued with.
struct Speaker {
  model::Transformer model{nullptr};
  std::unique_ptr<TextTokens> words;
  config::TrainPrecision precision = config::TrainPrecision::kFloat32;
  std::int64_t step = 0;
};

Speaker speaker_of_run(const std::filesystem::path& run, bool best, runs::Progress& progress) {
  const auto directory = runs::RunDirectory::open(run, runs::Access::kRead);
  config::LabConfig config = config::load_config(directory.config_path().string()).config;
  config.train = here(config.train);
  const auto task = tasks::make_task(config.task);
  check(config, *task);
  Speaker speaker;
  speaker.words = text_tokens(config, *task);
  const runs::Loaded checkpoint = runs::require_checkpoint(run, best, progress);
  speaker.step = checkpoint.step;
  speaker.model = model::Transformer(config.model, model_context(config, *task));
  Trainer::load_weights(speaker.model, checkpoint);
  speaker.model->to(device_of(config.train));
  speaker.model->eval();
  speaker.precision = config.train.precision;
  return speaker;
}

Speaker speaker_of_folder(const std::filesystem::path& folder) {
  Speaker speaker;
  speaker.words = tokenizer_tokens(folder.string());
  speaker.model = hf_model(folder.string());
  const std::int64_t rows = speaker.model->config().vocabulary;
  if (speaker.words->vocabulary() <= rows) return speaker;
  throw Error(ErrorKind::kConflict,
              {.scope = folder.string(),
               .key = "tokenizer.json",
               .rule = fmt::format("must have at most {} tokens, the model's vocab_size", rows),
               .value = std::to_string(speaker.words->vocabulary()),
               .hint = "use the tokenizer that belongs to the model"});
}

bool is_folder_of_hf(const std::filesystem::path& path) {
  std::error_code ignored;
  return !runs::RunDirectory::exists(path) &&
         std::filesystem::exists(path / "config.json", ignored);
}

}  // namespace

Generated generate(const std::filesystem::path& run, const GenerateOptions& options,
                   runs::Progress& progress, const StopRequest& stop) {
  Speaker speaker =
      is_folder_of_hf(run) ? speaker_of_folder(run) : speaker_of_run(run, options.best, progress);
  Generated result;
  result.step = speaker.step;
  result.prompt_tokens = speaker.words->encode(options.prompt, kScope);
  check_length(speaker.model->config(), std::ssize(result.prompt_tokens), options.tokens);
  const std::string why = options.no_cache ? "--no-cache" : speaker.model->why_not_decoded();
  result.decoding = why.empty() ? "key/value cache" : "all tokens again for each one: " + why;
  const MixedPrecision mixed(speaker.precision);
  result.tokens = generate_tokens(speaker.model, result.prompt_tokens, options.tokens,
                                  speaker.words->vocabulary(), options.sampling,
                                  why.empty() ? Decoding::kCache : Decoding::kRecompute, &stop);
  result.text = speaker.words->decode(result.tokens);
  return result;
}

}  // namespace posenc::train
