#include "report/group.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/field_use.h"
#include "core/strings.h"
#include "report/sharing.h"
#include "runs/run_search.h"

namespace posenc::report {
namespace {

constexpr const char* kEncoding = "model.encoding";
constexpr const char* kSeed = "seed";

std::string lines_text(const FlatConfig& flat) {
  std::string text;
  for (const auto& [key, value] : flat) {
    if (key != kEncoding && key != kSeed) text += fmt::format("{}={}\n", key, value);
  }
  return text;
}

std::string variant_name(std::size_t index) {
  std::string name;
  for (std::size_t rest = index + 1; rest > 0; rest = (rest - 1) / 26) {
    name.insert(name.begin(), static_cast<char>('A' + (rest - 1) % 26));
  }
  return name;
}

// Whether the variant has the line, or does not read the field.
bool fits(const SharedFields& fields, const std::string& line) {
  const std::string key = line.substr(0, line.find('='));
  if (std::find(fields.unread.begin(), fields.unread.end(), key) != fields.unread.end()) {
    return true;
  }
  return ("\n" + fields.training + fields.eval).find("\n" + line + "\n") != std::string::npos;
}

// The lines that do not fit all of them.
std::vector<Variant> name_variants(const std::vector<SharedFields>& shared) {
  std::vector<Variant> variants;
  for (const SharedFields& fields : shared) {
    Variant variant;
    if (shared.size() > 1) variant.name = variant_name(variants.size());
    const std::string text = fields.training + fields.eval;
    for (const std::string_view view : split_lines(text)) {
      const std::string line(view);
      const bool all = std::all_of(shared.begin(), shared.end(),
                                   [&](const SharedFields& other) { return fits(other, line); });
      if (!all) variant.settings.push_back(line);
    }
    variants.push_back(std::move(variant));
  }
  return variants;
}

template <class List, class Matches>
auto& find_or_add(List& list, const Matches& matches, typename List::value_type fresh) {
  const auto found = std::find_if(list.begin(), list.end(), matches);
  if (found != list.end()) return *found;
  list.push_back(std::move(fresh));
  return list.back();
}

SeedGroup& group_of(TaskGroup& task, const std::string& encoding, const SharedFields& shared) {
  return find_or_add(
      task.groups, [&](const SeedGroup& g) { return g.encoding == encoding && g.shared == shared; },
      {.encoding = encoding, .shared = shared, .runs = {}, .failed = {}});
}

std::string twice_remark(const Run& run, const Run& first) {
  return fmt::format("{} has the config and seed of {}: left out", run.path.string(),
                     first.path.string());
}

void add_finished(const Run& run, std::vector<TaskGroup>& tasks,
                  std::vector<std::string>& left_out) {
  const SharedFields shared{lines_text(training_fields(run.config)),
                            lines_text(eval_fields(*run.results)),
                            config::unread_fields(run.config)};
  TaskGroup& task =
      find_or_add(tasks, [&](const TaskGroup& t) { return t.task == run.results->task; },
                  {.task = run.results->task});
  find_or_add(
      task.shared, [&](const SharedFields& s) { return s == shared; }, shared);
  SeedGroup& group = group_of(task, run.results->encoding, shared);
  const auto [first, fresh] = group.runs.emplace(run.results->seed, &run);
  if (!fresh) left_out.push_back(twice_remark(run, *first->second));
}

// A run that failed has no evaluation: it failed under every one that runs of its config had.
bool add_failed(const Run& run, TaskGroup& task, std::vector<std::string>& left_out) {
  const std::string training = lines_text(training_fields(run.config));
  const std::string encoding = runs::encoding_in(run.config);
  const std::int64_t seed = runs::seed_in(run.config).value_or(0);
  bool joined = false;
  for (const SharedFields& shared : task.shared) {
    if (shared.training != training) continue;
    SeedGroup& group = group_of(task, encoding, shared);
    const auto finished = group.runs.find(seed);
    const bool fresh = finished == group.runs.end() && group.failed.emplace(seed, &run).second;
    if (!fresh && !joined) {
      left_out.push_back(twice_remark(
          run, finished == group.runs.end() ? *group.failed[seed] : *finished->second));
    }
    joined = true;
  }
  return joined;
}

}  // namespace

std::vector<TaskGroup> group_runs(const std::vector<Run>& runs,
                                  std::vector<std::string>& left_out) {
  std::vector<TaskGroup> tasks;
  for (const Run& run : runs) {
    if (run.results && run.remark.empty()) add_finished(run, tasks, left_out);
  }
  for (const Run& run : runs) {
    const bool joined = run.failed && std::any_of(tasks.begin(), tasks.end(), [&](TaskGroup& task) {
                          return add_failed(run, task, left_out);
                        });
    if (!run.remark.empty() && !joined) left_out.push_back(run.path.string() + " " + run.remark);
  }
  const std::set<const Run*> overlapping = overlapping_runs(runs);
  for (TaskGroup& task : tasks) {
    task.variants = name_variants(task.shared);
    task.overlapping = overlapping;
  }
  return tasks;
}

const SeedGroup& seeds_of(const TaskGroup& task, const Entry& entry) {
  return *std::find_if(task.groups.begin(), task.groups.end(), [&](const SeedGroup& group) {
    return group.encoding == entry.encoding && group.shared == task.shared[entry.variant];
  });
}

bool note_sharing(const TaskGroup& task, const std::vector<const Entry*>& entries,
                  TaskTable& table) {
  std::vector<const Run*> runs;
  for (const Entry* entry : entries) {
    for (const auto& [seed, run] : seeds_of(task, *entry).runs) runs.push_back(run);
  }
  const std::string note = sharing_note(runs, task.overlapping);
  if (note.empty()) return false;
  if (std::find(table.notes.begin(), table.notes.end(), note) == table.notes.end()) {
    table.notes.push_back(note);
  }
  table.sharing = note;
  return true;
}

}  // namespace posenc::report
