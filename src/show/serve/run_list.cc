#include "serve/run_list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "config/train_config.h"
#include "core/bind.h"
#include "core/plain_text.h"
#include "posenc/core/error.h"
#include "runs/run_directory.h"
#include "runs/run_search.h"
#include "serve/request.h"

namespace posenc::serve {
namespace {

constexpr std::size_t kDeepest = 16;
constexpr std::size_t kMostFolders =
    50'000;  // looked into; a folder by mistake must not cost minutes

Value text(const std::string& s) { return Value::of_string(s); }
Value map(Value::Map members) { return {Value::Data(std::move(members))}; }

void search(const Folder& folder, RunPath& path, std::vector<RunPath>& found, std::size_t& looked) {
  if (is_run(folder)) {
    found.push_back(path);
    return;
  }
  if (path.size() >= kDeepest) return;
  for (const std::string& name : folder.names()) {
    if (!is_utf8(name)) continue;  // a URL could not name it
    const auto below = folder.folder(std::span(&name, 1));
    if (!below || ++looked > kMostFolders) continue;
    path.push_back(name);
    search(*below, path, found, looked);
    path.pop_back();
  }
}

// "parity", or the one key of {parity: {...}}.
std::string name_of(const Value& value) {
  const auto* members = value.get_if<Value::Map>();
  if (members != nullptr && members->size() == 1) return members->front().key;
  return runs::spec_text(value);
}

Value progress_value(const Pace& pace, std::int64_t step, std::int64_t total, bool going) {
  std::optional<double> left;
  if (going && pace.seconds_per_step && total >= step) {
    left = static_cast<double>(total - step) * *pace.seconds_per_step;
  }
  return map({{"step", write_field(step)},
              {"total", total > 0 ? write_field(total) : Value()},
              {"seconds_left", write_field(left)},
              {"loss", write_field(pace.loss)},
              {"accuracy", write_field(pace.accuracy)},
              {"tokens_per_s", write_field(pace.tokens_per_s)}});
}

}  // namespace

bool is_run(const Folder& folder) { return folder.file("status.json").has_value(); }

std::vector<RunPath> find_runs(const Folder& root) {
  std::vector<RunPath> found;
  RunPath path;
  std::size_t looked = 0;
  search(root, path, found, looked);
  return found;
}

std::string run_url(const RunPath& path) {
  std::string url = "/api/runs/";
  for (const std::string& name : path) url += percent_encoded(name) + "/";
  return url;
}

bool in_use(const Folder& run) {
  const auto lock = run.file(".lock");
  return lock && runs::is_locked(lock->descriptor);
}

std::string KeptText::get(const std::function<std::string()>& make) {
  const std::scoped_lock lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  if (!made_ || now - *made_ >= keep_) {
    text_ = make();
    made_ = std::chrono::steady_clock::now();
  }
  return text_;
}

RunReader::Config RunReader::read_config(const File& file) {
  Config config;
  try {
    const Value tree = parse_yaml(file.read(0, static_cast<std::size_t>(file.size)), "config.yaml");
    if (const Value* task = tree.find("task")) config.task = name_of(*task);
    config.encoding = runs::encoding_in(tree);
    config.seed = runs::seed_in(tree);
    const Value* train = tree.find("train");
    const auto bound = train == nullptr
                           ? config::TrainConfig{}
                           : bind_config<config::TrainConfig>(*train, "config.yaml", "train.");
    config.total_steps = config::total_steps(bound);
    config.train_length = config::train_length(bound);
  } catch (const Error&) {  // another version's config: the rest of the run still shows
  }
  return config;
}

Value RunReader::describe_run(const Folder& folder, const RunPath& path) {
  const std::string joined = fmt::format("{}", fmt::join(path, "/"));
  Value::Map members = {{"path", text(joined)}, {"url", text(run_url(path))}};
  Memory& memory = memory_[path];
  memory.seen = true;
  const auto status_text = folder.text("status.json");
  if (!status_text) throw Error(ErrorKind::kIo, {.scope = joined, .rule = "is no longer a run"});
  const auto status =
      bind_config<runs::RunStatus>(parse_json(*status_text, "status.json"), "status.json");
  const bool in_use = serve::in_use(folder);
  const auto keep = [](auto& kept, const std::optional<File>& file, const auto& read) {
    if (!file) {
      kept = {};
    } else if (const Tag tag{file->size, file->modified_ns}; kept.tag != tag) {
      kept.value = read(*file);
      kept.tag = tag;
    }
  };
  keep(memory.config, folder.file("config.yaml"), read_config);
  const auto metrics = folder.file("metrics.jsonl");
  keep(memory.pace, metrics, read_pace);
  const Config& config = memory.config.value;
  const bool going = in_use && status.state == runs::RunState::kRunning;
  const std::int64_t step = going ? std::max(status.step, memory.pace.value.step) : status.step;
  members.insert(
      members.end(),
      {{"status", map(all_fields(status))},
       {"in_use", write_field(in_use)},
       {"progress", progress_value(memory.pace.value, step, config.total_steps, going)},
       {"encoding", text(config.encoding)},
       {"task", text(config.task)},
       {"seed", config.seed ? write_field(*config.seed) : Value()},
       {"train_length", write_field(config.train_length)},
       {"evaluated", write_field(folder.file("results.json").has_value())},
       {"metrics_bytes",
        write_field(static_cast<std::int64_t>(metrics ? metrics->size : std::uint64_t{0}))},
       {"updated",
        write_field((metrics ? metrics->modified_ns : folder.modified_ns()) / 1'000'000'000)}});
  return map(std::move(members));
}

Value RunReader::describe(const std::string& root) {
  Value::List all;
  for (auto& [path, memory] : memory_) memory.seen = false;
  const auto folder = Folder::open(root);
  for (const RunPath& path : folder ? find_runs(*folder) : std::vector<RunPath>{}) {
    try {
      const auto run = folder->folder(path);
      if (run) all.push_back(describe_run(*run, path));
    } catch (const Error& error) {
      all.push_back(map({{"path", text(fmt::format("{}", fmt::join(path, "/")))},
                         {"url", text(run_url(path))},
                         {"error", text(error.what())}}));
    }
  }
  std::erase_if(memory_, [](const auto& entry) { return !entry.second.seen; });
  return map({{"folder", text(root)}, {"runs", {Value::Data(std::move(all))}}});
}

}  // namespace posenc::serve
