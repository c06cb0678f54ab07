#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "runs/checkpoints.h"
#include "runs/files.h"
#include "runs/manifest.h"
#include "runs/progress.h"
#include "system/file_errors.h"

namespace posenc::runs {
namespace {

namespace fs = std::filesystem;

CheckpointInfo describe_checkpoint(const fs::path& path, std::int64_t step) {
  CheckpointInfo info{step, path, std::nullopt, ""};
  try {
    info.score = check_sizes(path).score;
  } catch (const Error& error) {
    info.problem = error.what();
  }
  return info;
}

std::string skipped(std::int64_t step, const std::string& problem) {
  return fmt::format("checkpoint of step {} is skipped: {}", step, problem);
}

// The first of the candidates that loads; those before it get a word each.
std::optional<Loaded> first_whole(const CheckpointReader& checkpoints,
                                  std::span<const CheckpointInfo> candidates,
                                  std::vector<std::string>* words) {
  for (const CheckpointInfo& info : candidates) {
    try {
      return checkpoints.load(info.step);
    } catch (const Error& error) {
      if (words != nullptr) words->push_back(skipped(info.step, error.what()));
    }
  }
  return std::nullopt;
}

}  // namespace

const weights::Reader& Loaded::group(std::string_view name) const {
  for (const auto& [file, reader] : groups) {
    if (file == name) return reader;
  }
  throw file_error(
      ErrorKind::kMissingKey, path.string(), fmt::format("{}{}", name, kTensorSuffix),
      "is not in this checkpoint", "",
      name == "optimizer" ? "runs from a pack can be evaluated, not resumed: train a new one" : "");
}

std::vector<CheckpointInfo> CheckpointReader::list() const {
  std::vector<CheckpointInfo> found;
  for (const std::string& name : names_in(dir_)) {
    const auto step = step_of_name(name);
    if (step) found.push_back(describe_checkpoint(dir_ / name, *step));
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.step < b.step; });
  return found;
}

Loaded CheckpointReader::load(std::int64_t step) const {
  Loaded loaded{step, dir_ / step_name(step), {}, {}, {}};
  const Manifest manifest = check_content(loaded.path);
  loaded.score = manifest.score;
  loaded.state = read_json(loaded.path / kStateFile);
  for (const ManifestFile& file : manifest.files) {
    if (!file.name.ends_with(kTensorSuffix)) continue;
    const std::string group =
        file.name.substr(0, file.name.size() - std::string_view(kTensorSuffix).size());
    loaded.groups.emplace_back(group, weights::Reader((loaded.path / file.name).string()));
  }
  return loaded;
}

std::optional<Loaded> CheckpointReader::load_latest(std::vector<std::string>* words) const {
  std::vector<CheckpointInfo> candidates = list();
  std::reverse(candidates.begin(), candidates.end());
  return first_whole(*this, candidates, words);
}

std::optional<Loaded> CheckpointReader::best(std::vector<std::string>* words) const {
  std::vector<CheckpointInfo> candidates = list();
  for (const CheckpointInfo& info : candidates) {
    if (words != nullptr && !info.problem.empty()) {
      words->push_back(skipped(info.step, info.problem));
    }
  }
  std::erase_if(candidates, [](const CheckpointInfo& info) { return !info.score; });
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const auto& a, const auto& b) { return *a.score > *b.score; });
  return first_whole(*this, candidates, words);
}

Loaded require_checkpoint(const fs::path& run, bool best, std::vector<std::string>& messages,
                          const std::string& hint) {
  const CheckpointReader reader(run / "checkpoints");
  std::vector<std::string> skipped;
  auto found = best ? reader.best(&skipped) : reader.load_latest(&skipped);
  if (!found) {
    const std::string rule = best ? "has no checkpoint with a score" : "has no checkpoint";
    throw file_error(ErrorKind::kIo, run.string(), "",
                     skipped.empty()
                         ? rule
                         : fmt::format("{} that is whole: {}", rule, fmt::join(skipped, "; ")),
                     "", hint);
  }
  messages.insert(messages.end(), skipped.begin(), skipped.end());
  return std::move(*found);
}

Loaded require_checkpoint(const fs::path& run, bool best, Progress& progress) {
  std::vector<std::string> messages;
  Loaded found = require_checkpoint(run, best, messages);
  for (const std::string& message : messages) progress.message(message);
  return found;
}

}  // namespace posenc::runs
