#include "report/group.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace posenc::report {
namespace {

using Flat = std::vector<std::pair<std::string, std::string>>;

constexpr const char* kEncoding = "model.encoding";
constexpr const char* kSeed = "seed";

std::string without_encoding_and_seed(const Flat& flat) {
  std::string text;
  for (const auto& [key, value] : flat) {
    if (key != kEncoding && key != kSeed) text += fmt::format("{}={}\n", key, value);
  }
  return text;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

std::string variant_name(std::size_t index) {
  std::string name;
  for (std::size_t rest = index + 1; rest > 0; rest = (rest - 1) / 26) {
    name.insert(name.begin(), static_cast<char>('A' + (rest - 1) % 26));
  }
  return name;
}

// The lines that not all of them have.
std::vector<Variant> name_variants(const std::vector<std::string>& shared) {
  std::map<std::string, std::size_t> how_many;
  for (const std::string& text : shared) {
    for (const std::string& line : lines_of(text)) ++how_many[line];
  }
  std::vector<Variant> variants;
  for (const std::string& text : shared) {
    Variant variant;
    if (shared.size() > 1) variant.name = variant_name(variants.size());
    for (const std::string& line : lines_of(text)) {
      if (how_many[line] < shared.size()) variant.settings.push_back(line);
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

}  // namespace

std::vector<TaskGroup> group_runs(const std::vector<Run>& runs,
                                  std::vector<std::string>& left_out) {
  std::vector<TaskGroup> tasks;
  for (const Run& run : runs) {
    if (!run.remark.empty()) left_out.push_back(run.path.string() + " " + run.remark);
    if (!run.results || !run.remark.empty()) continue;
    const std::string shared = without_encoding_and_seed(flat_config(run.config));
    const std::string& encoding = run.results->encoding;
    TaskGroup& task =
        find_or_add(tasks, [&](const TaskGroup& t) { return t.task == run.results->task; },
                    {.task = run.results->task});
    find_or_add(
        task.shared, [&](const std::string& s) { return s == shared; }, shared);
    SeedGroup& group = find_or_add(
        task.groups,
        [&](const SeedGroup& g) { return g.encoding == encoding && g.shared == shared; },
        {.encoding = encoding, .shared = shared, .runs = {}});
    const auto [first, fresh] = group.runs.emplace(run.results->seed, &run);
    if (!fresh) {
      left_out.push_back(fmt::format("{} has the config and seed of {}: left out",
                                     run.path.string(), first->second->path.string()));
    }
  }
  for (TaskGroup& task : tasks) task.variants = name_variants(task.shared);
  return tasks;
}

}  // namespace posenc::report
