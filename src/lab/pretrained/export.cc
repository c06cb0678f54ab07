#include "pretrained/export.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "config/hf_model.h"
#include "config/init_from.h"
#include "config/load.h"
#include "pretrained/floats.h"
#include "pretrained/hf_tensors.h"
#include "runs/checkpoints.h"
#include "runs/run_directory.h"
#include "system/file_errors.h"
#include "system/files.h"
#include "system/folders.h"
#include "tasks/corpus_files.h"

namespace posenc::pretrained {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWeightsFile = "model.safetensors";
constexpr const char* kConfigFile = "config.json";

void require_causal(const config::LabConfig& config, const std::string& run) {
  const bool encoder = std::holds_alternative<tasks::MaskedLanguageModel>(config.task) ||
                       std::holds_alternative<tasks::PassageMatching>(config.task);
  if (!encoder) return;
  throw Error(ErrorKind::kUnsupported, {.scope = run,
                                        .key = "task",
                                        .rule = "must be one of a causal model",
                                        .value = config::task_name(config),
                                        .hint = "the five families that are written are decoders"});
}

void require_room(const fs::path& out, bool replace) {
  std::error_code ignored;
  const bool folder = fs::is_directory(out, ignored);
  if (fs::exists(out, ignored) && !folder) {
    throw file_error(ErrorKind::kConflict, out.string(), "", "must be a folder", "a file",
                     "choose another name");
  }
  if (replace || !folder || fs::is_empty(out, ignored)) return;
  throw file_error(ErrorKind::kConflict, out.string(), "", "is not empty", "",
                   "choose another folder, or replace its files with --force");
}

// Tensors of the file in the order of the rules, each with the parts that fill it.
std::vector<std::pair<weights::TensorSpec, std::vector<const TensorRule*>>> by_file(
    const std::vector<TensorRule>& rules) {
  std::vector<std::pair<weights::TensorSpec, std::vector<const TensorRule*>>> files;
  for (const TensorRule& rule : rules) {
    const auto found = std::find_if(files.begin(), files.end(),
                                    [&](const auto& f) { return f.first.name == rule.file; });
    if (found != files.end()) {
      found->second.push_back(&rule);
      continue;
    }
    files.push_back({{rule.file, weights::ElementType::kF32, rule.file_shape}, {&rule}});
  }
  return files;
}

std::vector<float> filled(const weights::TensorSpec& spec,
                          const std::vector<const TensorRule*>& parts,
                          const weights::Reader& reader) {
  std::vector<float> values(*weights::byte_length(spec.type, spec.shape) / sizeof(float));
  for (const TensorRule* rule : parts) {
    const std::vector<float> lab = read_floats(reader, reader.at(rule->lab));
    const std::int64_t columns = rule->lab_shape.size() > 1 ? rule->lab_shape[1] : 1;
    std::size_t next = 0;
    for (std::int64_t row = 0; row < rule->lab_shape.front(); ++row) {
      for (std::int64_t column = 0; column < columns; ++column) {
        values[rule->place(row, column)] = lab[next++];
      }
    }
  }
  return values;
}

std::int64_t write_weights(const std::string& path, const std::vector<TensorRule>& rules,
                           const weights::Reader& reader) {
  const auto files = by_file(rules);
  std::vector<weights::TensorSpec> specs;
  for (const auto& [spec, parts] : files) specs.push_back(spec);
  weights::Writer writer(path, specs, {{"format", "pt"}});  // transformers asks for it
  for (const auto& [spec, parts] : files) {
    const std::vector<float> values = filled(spec, parts, reader);
    writer.append(std::as_bytes(std::span(values)));
  }
  writer.commit();
  return std::ssize(files);
}

// Where the tokenizer of a run is: next to its token files, or where its weights came from.
fs::path tokenizer_folder(config::LabConfig config) {
  constexpr int kLongestChain = 100;  // of runs that start from runs
  for (int i = 0; i < kLongestChain; ++i) {
    const auto* text = std::get_if<tasks::LanguageModel>(&config.task);
    if (text != nullptr && !text->tokens.empty()) return tasks::path_or_corpus(text->tokens);
    const std::string from = config.train.init_from;
    if (from.empty() || !runs::RunDirectory::exists(from)) return from;
    const auto run = runs::RunDirectory::open(from, runs::Access::kRead);
    config = config::load_config(run.config_path().string()).config;
  }
  return {};
}

void copy_tokenizer(const config::LabConfig& config, const fs::path& out,
                    std::vector<std::string>& files) {
  const fs::path folder = tokenizer_folder(config);
  if (folder.empty()) return;
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"}) {
    std::error_code ignored;
    const fs::path from = folder / name;
    if (!fs::is_regular_file(from, ignored)) continue;
    atomic_write((out / name).string(), read_file(from.string()));
    files.emplace_back(name);
  }
}

}  // namespace

Exported export_hf(const std::string& run, const std::string& out, const ExportOptions& options) {
  const auto directory = runs::RunDirectory::open(run, runs::Access::kRead);
  const config::LabConfig config = config::load_config(directory.config_path().string()).config;
  require_causal(config, run);
  Exported exported;
  const runs::Loaded checkpoint = runs::require_checkpoint(run, options.best, exported.messages);
  const weights::Reader& reader = checkpoint.group("model");
  const config::HfFacts facts{.vocabulary = reader.at("embed.weight").shape.front(),
                              .positions = config::train_length(config.train)};
  const std::string json = config::hf_model_json(config.model, facts, run);
  require_room(out, options.replace);
  NewFolders folders{fs::path(out)};
  const auto rules = hf_tensors(hf_names(config.model), config.model, facts.vocabulary);
  exported.step = checkpoint.step;
  exported.tensors = write_weights((fs::path(out) / kWeightsFile).string(), rules, reader);
  atomic_write((fs::path(out) / kConfigFile).string(), json);
  folders.keep();
  exported.files = {kConfigFile, kWeightsFile};
  copy_tokenizer(config, out, exported.files);
  const Value written = parse_json(json, kConfigFile);
  exported.model_type = *written.find("model_type")->get_if<std::string>();
  return exported;
}

}  // namespace posenc::pretrained
