#include "runs/run_search.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/bind.h"
#include "runs/archive.h"
#include "runs/files.h"
#include "runs/run_directory.h"
#include "system/file_errors.h"

namespace posenc::runs {
namespace {

namespace fs = std::filesystem;

void search(const fs::path& folder, std::vector<fs::path>& found) {
  if (RunDirectory::exists(folder)) {
    found.push_back(folder);
    return;
  }
  for (const std::string& name : names_in(folder)) {
    const fs::path path = folder / name;
    std::error_code ignored;
    if (is_temporary(name) || fs::is_symlink(path, ignored)) continue;
    if (fs::is_directory(path, ignored)) {
      search(path, found);
    } else if (is_archive_name(path) && fs::is_regular_file(path, ignored)) {
      found.push_back(path);
    }
  }
}

std::int64_t bytes_below(const fs::path& folder) {
  std::int64_t bytes = 0;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder, ignored)) {
    if (!entry.is_symlink(ignored) && entry.is_regular_file(ignored)) {
      bytes += static_cast<std::int64_t>(entry.file_size());
    }
  }
  return bytes;
}

}  // namespace

std::vector<fs::path> find_run_paths(const fs::path& folder) {
  std::vector<fs::path> found;
  search(folder, found);
  std::sort(found.begin(), found.end());
  return found;
}

std::string spec_text(const Value& value) {
  if (const auto* word = value.get_if<std::string>()) return *word;
  const auto* list = value.get_if<Value::List>();
  if (list == nullptr) return to_json(value);
  std::vector<std::string> parts;
  for (const Value& part : *list) parts.push_back(spec_text(part));
  return fmt::format("{}", fmt::join(parts, " | "));
}

std::string encoding_in(const Value& config) {
  const Value* model = config.find("model");
  const Value* encoding = model == nullptr ? nullptr : model->find("encoding");
  return encoding == nullptr ? "" : spec_text(*encoding);
}

std::optional<std::int64_t> seed_in(const Value& config) {
  const Value* seed = config.find("seed");
  const auto* number = seed == nullptr ? nullptr : seed->get_if<std::int64_t>();
  return number == nullptr ? std::nullopt : std::optional(*number);
}

RunSummary summarize_run(const fs::path& run) {
  const auto directory = RunDirectory::open(run, Access::kRead);
  const RunStatus status = directory.status();
  const Value config = parse_yaml(directory.config(), directory.config_path().string());
  const bool killed = status.state == RunState::kRunning && !directory.in_use();
  return {.encoding = encoding_in(config),
          .seed = seed_in(config),
          .state = killed ? "killed" : std::string(enum_name(status.state)),
          .step = status.step,
          .bytes = bytes_below(run)};
}

}  // namespace posenc::runs
