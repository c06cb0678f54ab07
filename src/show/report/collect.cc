#include "report/collect.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "config/field_use.h"
#include "core/bind.h"
#include "posenc/core/error.h"
#include "runs/environment.h"
#include "runs/numbers.h"
#include "runs/run_directory.h"
#include "runs/run_search.h"

namespace posenc::report {
namespace {

namespace fs = std::filesystem;

// What differs between runs that are the same experiment; see config::config_hash and eval_hash.
constexpr std::array<std::string_view, 11> kOfNoEffect = {
    "name",           "train.log_every",       "train.checkpoint_every", "train.keep_last",
    "eval.threshold", "eval.tokens_per_batch", "eval.attention_samples", "train.eval_conditions",
    "train.timeout",  "train.shard_optimizer", "train.checkpoint_blocks"};

Error place_error(const std::string& place, const std::string& rule, const std::string& hint) {
  return {ErrorKind::kIo, {.scope = "runs", .key = place, .rule = rule, .value = "", .hint = hint}};
}

std::string plain(const Value& value) {
  const auto* word = value.get_if<std::string>();
  return word != nullptr ? *word : to_json(value);
}

std::string machine_of(const Value& environment) {
  std::string text;
  for (const char* key : {"cpu", "architecture", "threads", "device", "gpu"}) {
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

fs::path shown_below(const fs::path& path, const fs::path& root, const fs::path& given) {
  const fs::path below = path.lexically_relative(root);
  return below == "." ? given : given / below;
}

void add_pack(const fs::path& pack, std::vector<Run>& runs) {
  const auto unpacked = std::make_shared<const runs::UnpackedPack>(pack);
  for (const std::string& name : unpacked->runs()) {
    const RunFolder folder{unpacked->folder(name), unpacked};
    Run run = read_run(pack / name, [&] { return files_of(folder.path); });
    run.folder = folder;
    run.remark = shown_message(run.remark, folder, run.path.string());
    runs.push_back(std::move(run));
  }
}

// What a search found: a run, a pack, or another kind of archive, which is skipped.
void add_found(const fs::path& path, const fs::path& shown, std::vector<Run>& runs) {
  if (runs::RunDirectory::exists(path)) {
    runs.push_back(read_run(shown, [&] { return files_of(path); }));
    return;
  }
  try {
    if (runs::may_be_pack(shown)) add_pack(shown, runs);
  } catch (const Error& e) {
    Run damaged;
    damaged.path = shown;
    damaged.remark = fmt::format("cannot be read: {}", e.what());
    runs.push_back(std::move(damaged));
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
  run.folder.path = shown;
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

std::string shown_message(std::string message, const RunFolder& folder, const std::string& shown) {
  const std::string hidden = folder.path.string();
  if (folder.pack == nullptr) return message;
  for (std::size_t at = message.find(hidden); at != std::string::npos;
       at = message.find(hidden, at + shown.size())) {
    message.replace(at, hidden.size(), shown);
  }
  return message;
}

std::vector<Run> find_runs(const std::vector<std::string>& places) {
  std::set<fs::path> found;
  std::vector<Run> runs;
  for (const std::string& place : places) {
    if (!fs::exists(place)) {
      throw place_error(place, "is not a folder or a pack of runs",
                        "name folders with runs, such as runs/demo, or packs");
    }
    const fs::path root = fs::canonical(place);
    if (!fs::is_directory(root)) {
      if (found.insert(root).second) add_pack(place, runs);
      continue;
    }
    for (const fs::path& path : runs::find_run_paths(root)) {
      if (found.insert(path).second) add_found(path, shown_below(path, root, place), runs);
    }
  }
  if (runs.empty()) {
    throw place_error(places.empty() ? "" : places.front(), "holds no runs",
                      "train some with posenc train or posenc sweep");
  }
  return runs;
}

FlatConfig training_fields(const Value& config) {
  FlatConfig flat;
  flatten(config, "", flat);
  const std::vector<std::string> unread = config::unread_fields(config);
  std::erase_if(flat, [&](const auto& field) {
    return field.first.starts_with("eval.") ||
           std::find(unread.begin(), unread.end(), field.first) != unread.end();
  });
  // Runs from before this field are of the same task, as config::config_hash says too.
  std::erase(flat, std::pair<std::string, std::string>("task.selective_counting.leak", "false"));
  return flat;
}

FlatConfig eval_fields(const Results& results) {
  FlatConfig flat;
  flatten(results.eval, "eval", flat);
  // Results from before this field are of the same evaluation, as config::eval_hash says too.
  std::erase(flat, std::pair<std::string, std::string>("eval.schedules", "none"));
  return flat;
}

}  // namespace posenc::report
