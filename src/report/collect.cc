#include "report/collect.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "core/bind.h"
#include "posenc/core/error.h"
#include "runs/environment.h"
#include "runs/numbers.h"
#include "runs/run_directory.h"

namespace posenc::report {
namespace {

namespace fs = std::filesystem;

// What differs between runs that are the same experiment; see experiment::config_hash and eval_hash.
constexpr std::array<std::string_view, 8> kOfNoEffect = {
    "name",           "train.log_every",       "train.checkpoint_every", "train.keep_last",
    "eval.threshold", "eval.tokens_per_batch", "eval.attention_samples", "train.eval_conditions"};

Error folder_error(const std::string& folder, const std::string& rule, const std::string& hint) {
  return {ErrorKind::kIo,
          {.scope = "runs", .key = folder, .rule = rule, .value = "", .hint = hint}};
}

// Folders that hold a run; what is below a run is its own business. Links are not followed.
void search(const fs::path& folder, std::set<fs::path>& found) {
  if (runs::RunDirectory::exists(folder)) {
    found.insert(fs::canonical(folder));
    return;
  }
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.is_directory(error) && !entry.is_symlink(error)) search(entry.path(), found);
  }
  if (error) throw folder_error(folder.string(), "cannot be read: " + error.message(), "");
}

std::string plain(const Value& value) {
  const auto* word = value.get_if<std::string>();
  return word != nullptr ? *word : to_json(value);
}

std::string machine_of(const Value& environment) {
  std::string text;
  for (const char* key : {"cpu", "architecture", "threads", "device"}) {
    const Value* value = environment.find(key);
    if (value == nullptr || value->is_null()) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", key, plain(*value));
  }
  return text;
}

void read_environment(const Value& environment, Run& run) {
  run.machine = machine_of(environment);
  const Value* device = environment.find("device");
  run.on_gpu = device != nullptr && plain(*device).starts_with("cuda");
  const Value* jobs = environment.find("jobs_at_once");
  const auto* count = jobs == nullptr ? nullptr : jobs->get_if<std::int64_t>();
  if (count != nullptr) run.jobs_at_once = *count;
  const Value* started = environment.find("started");
  const auto* time = started == nullptr ? nullptr : started->get_if<std::string>();
  if (time != nullptr) run.started = runs::utc_time(*time);
}

std::string state_remark(const runs::RunStatus& status, bool in_use) {
  const std::string why = status.message.empty() ? "" : ": " + status.message;
  switch (status.state) {
    case runs::RunState::kFinished:
      return "";
    case runs::RunState::kRunning:
      return in_use ? fmt::format("is still running, at step {}", status.step)
                    : fmt::format("was killed after step {}", status.step);
    case runs::RunState::kStopped:
      return fmt::format("stopped at step {}{}", status.step, why);
    case runs::RunState::kDiverged:
      return fmt::format("diverged at step {}{}", status.step, why);
    case runs::RunState::kFailed:
      return fmt::format("failed at step {}{}", status.step, why);
  }
  return "";
}

RunFiles files_of(const fs::path& path) {
  const auto directory = runs::RunDirectory::open(path, runs::Access::kRead);
  const auto text = [](const fs::path& file) { return read_file(file.string()); };
  RunFiles files{.status = text(directory.status_path()),
                 .config = text(directory.config_path()),
                 .environment = text(directory.environment_path()),
                 .results = std::nullopt,
                 .scores = std::nullopt,
                 .in_use = directory.in_use()};
  if (fs::exists(directory.results_path())) files.results = text(directory.results_path());
  if (fs::exists(runs::scores_path(path))) files.scores = text(runs::scores_path(path));
  return files;
}

// Rows of another evaluation are other rows: nothing may be paired with them.
void read_tallies(const RunFiles& files, Run& run) {
  if (!files.scores) {
    run.scores_remark = "has no scores.bin";
    return;
  }
  try {
    runs::RunTallies scores = runs::parse_scores(*files.scores, runs::scores_path(run.path));
    if (scores.evaluation_hash == run.results->eval_hash) {
      run.scores = std::move(scores);
    } else {
      run.scores_remark = "has a scores.bin of another evaluation than its results.json";
    }
  } catch (const Error& e) {
    run.scores_remark = fmt::format("has a scores.bin that cannot be read: {}", e.what());
  }
}

void flatten(const Value& value, const std::string& key, FlatConfig& flat) {
  const auto* map = value.get_if<Value::Map>();
  if (map == nullptr || (map->empty() && !key.empty())) {
    if (std::find(kOfNoEffect.begin(), kOfNoEffect.end(), key) == kOfNoEffect.end()) {
      flat.emplace_back(key, plain(value));
    }
    return;
  }
  for (const Member& member : *map) {
    flatten(member.value, key.empty() ? member.key : key + "." + member.key, flat);
  }
}

}  // namespace

Run read_run(const fs::path& shown, const std::function<RunFiles()>& read) {
  Run run;
  run.path = shown;
  const auto scope = [&](const char* name) { return (shown / name).string(); };
  const auto tree = [&](const std::string& text, const char* name) {
    return runs::with_non_finite(parse_json(text, scope(name)));
  };
  try {
    const RunFiles files = read();
    const auto status =
        bind_config<runs::RunStatus>(tree(files.status, "status.json"), scope("status.json"));
    run.remark = state_remark(status, files.in_use);
    run.failed =
        status.state == runs::RunState::kDiverged || status.state == runs::RunState::kFailed;
    run.config = parse_yaml(files.config, scope("config.yaml"));
    read_environment(tree(files.environment, "environment.json"), run);
    if (run.failed) return run;
    if (files.results) {
      run.results = read_results(tree(*files.results, "results.json"), scope("results.json"));
      read_tallies(files, run);
    } else if (run.remark.empty()) {
      run.remark = "has not been evaluated (posenc eval)";
    }
  } catch (const Error& e) {
    run.results.reset();
    run.failed = false;
    run.remark = fmt::format("cannot be read: {}", e.what());
  }
  return run;
}

std::vector<Run> find_runs(const std::vector<std::string>& folders) {
  std::set<fs::path> found;
  std::vector<Run> runs;
  for (const std::string& folder : folders) {
    if (!fs::is_directory(folder)) {
      throw folder_error(folder, "is not a folder", "name folders with runs, such as runs/demo");
    }
    std::set<fs::path> here;
    search(folder, here);
    const fs::path root = fs::canonical(folder);
    for (const fs::path& path : here) {
      if (!found.insert(path).second) continue;
      const fs::path below = path.lexically_relative(root);
      runs.push_back(read_run(below == "." ? fs::path(folder) : fs::path(folder) / below,
                              [&] { return files_of(path); }));
    }
  }
  if (runs.empty()) {
    throw folder_error(folders.empty() ? "" : folders.front(), "holds no runs",
                       "train some with posenc train or posenc sweep");
  }
  return runs;
}

FlatConfig training_fields(const Value& config) {
  FlatConfig flat;
  flatten(config, "", flat);
  std::erase_if(flat, [](const auto& field) { return field.first.starts_with("eval."); });
  return flat;
}

FlatConfig eval_fields(const Results& results) {
  FlatConfig flat;
  flatten(results.eval, "eval", flat);
  // Results from before this field are of the same evaluation, as experiment::eval_hash says too.
  std::erase(flat, std::pair<std::string, std::string>("eval.schedules", "none"));
  return flat;
}

}  // namespace posenc::report
