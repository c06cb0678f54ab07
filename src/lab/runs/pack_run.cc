#include "runs/pack_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <string>
#include <tuple>

#include "core/bind.h"
#include "runs/attention_record.h"
#include "runs/checkpoints.h"
#include "runs/manifest.h"
#include "runs/metrics.h"
#include "runs/numbers.h"
#include "runs/private_paths.h"
#include "runs/run_directory.h"
#include "runs/scores.h"
#include "runs/thin_metrics.h"
#include "system/file_errors.h"
#include "system/sha256.h"

namespace posenc::runs {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModelFile = "model.safetensors";

// Not atomic_write: the whole folder is a temporary, and no file of it has to survive a crash.
void write_text(const fs::path& path, std::string_view text) {
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file.flush()) throw write_error(path.string(), errno == 0 ? EIO : errno);
}

void write_tree(const fs::path& path, const Value& value) {
  write_text(path, to_json(without_non_finite(value)) + "\n");
}

void copy_into(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::copy_file(from, to, error);
  if (error) throw write_error(to.string(), error.value());
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw write_error(folder.string(), error.value());
}

void copy_metrics(const fs::path& from, const fs::path& to, std::int64_t most) {
  std::string text;
  for (const Value& row : thin_metrics(read_metrics(from), static_cast<std::size_t>(most))) {
    text += to_json(without_non_finite(row)) + "\n";
  }
  if (!text.empty()) write_text(to, text);
}

struct Record {
  fs::path path;
  AttentionExample example;
};

// Samples as they were trained on come first, and the last checkpoint before the best.
bool goes_before(const Record& a, const Record& b) {
  const auto key = [](const Record& r) {
    const bool best = r.path.stem().string().ends_with("-best");
    return std::tuple(r.example.length, r.example.axis != "train", best, r.example.axis,
                      r.example.sample);
  };
  return key(a) < key(b);
}

void copy_attention(const fs::path& run, const fs::path& target, std::int64_t most) {
  std::vector<Record> records;
  if (most > 0) {
    for (const fs::path& path : list_attention(run)) {
      records.push_back({path, read_attention_example(path)});
    }
  }
  std::sort(records.begin(), records.end(), goes_before);
  std::erase_if(records, [length = records.empty() ? 0 : records.front().example.length](
                             const Record& r) { return r.example.length != length; });
  records.resize(std::min(records.size(), static_cast<std::size_t>(most)));
  if (!records.empty()) make_folder(attention_folder(target));
  for (const Record& record : records) {
    copy_into(record.path, attention_folder(target) / record.path.filename());
  }
}

ManifestFile described(const fs::path& path) {
  return {path.filename().string(), static_cast<std::int64_t>(fs::file_size(path)),
          sha256_of_file(path.string())};
}

// A checkpoint of the weights alone, with a manifest that fits.
void copy_weights(const RunDirectory& run, const fs::path& target,
                  std::vector<std::string>& messages) {
  const Loaded last = require_checkpoint(run.path(), false, messages, "pack it without --weights");
  const fs::path folder = target / "checkpoints" / step_name(last.step);
  make_folder(folder);
  for (const char* name : {kModelFile, kStateFile}) copy_into(last.path / name, folder / name);
  const Manifest manifest{
      last.step, last.score, {described(folder / kModelFile), described(folder / kStateFile)}};
  write_text(folder / kManifestFile, manifest_text(manifest));
}

// Row losses count in bits alone, and without them thousands of rows are almost nothing.
bool needs_losses(const RunDirectory& run) {
  const auto results = run.results();
  const Value* metric = results ? results->find("metric") : nullptr;
  const auto* name = metric == nullptr ? nullptr : metric->get_if<std::string>();
  return name == nullptr || *name == name_of(Metric::kBitsPerByte) ||
         *name == name_of(Metric::kBitsPerToken);
}

void copy_scores(const RunDirectory& run, const fs::path& to) {
  const fs::path from = scores_path(run.path());
  if (!fs::exists(from)) return;
  if (needs_losses(run)) return copy_into(from, to);
  RunTallies scores = read_scores(from);
  for (ConditionTallies& condition : scores.conditions) {
    for (auto& region : condition.regions) {
      for (Tally& row : region) row.loss = 0.0F;
    }
  }
  write_scores(to, scores);
}

RunStatus without_paths(RunStatus status) {
  status.message = without_absolute_paths(std::string_view(status.message));
  return status;
}

}  // namespace

void copy_for_pack(const fs::path& path, const fs::path& target, const PackOptions& options,
                   std::vector<std::string>& messages) {
  const auto run = RunDirectory::open(path, Access::kRead);
  make_folder(target);
  write_text(target / "config.yaml", run.config());
  write_tree(target / "environment.json", without_absolute_paths(run.environment()));
  write_tree(target / "status.json", {Value::Data(all_fields(without_paths(run.status())))});
  const fs::path results = run.results_path();
  if (fs::exists(results)) copy_into(results, target / results.filename());
  copy_scores(run, scores_path(target));
  copy_metrics(run.metrics_path(), target / run.metrics_path().filename(), options.metrics);
  copy_attention(path, target, options.attention);
  if (options.weights) copy_weights(run, target, messages);
}

}  // namespace posenc::runs
