#include "report/record_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "posenc/core/error.h"
#include "system/sha256.h"

namespace posenc::report {
namespace {

namespace fs = std::filesystem;

void find_in_run(const TaskTable& table, const Entry& entry, std::size_t index,
                 std::vector<FoundRecord>& found, std::vector<std::string>& remarks) {
  const std::string& run = entry.paths[index];
  const RunFolder& folder = entry.folders[index];
  const auto remark = [&](const std::string& message) {
    remarks.push_back(shown_message(message, folder, run));
  };
  for (const fs::path& path : runs::list_attention(folder.path)) {
    try {
      if (fs::file_size(path) > kLargestRecord) {
        remark(fmt::format("{} is too large for a page", path.string()));
        continue;
      }
      found.push_back({&table, &entry, run, folder, path, runs::read_attention_example(path)});
    } catch (const Error& e) {
      remark(e.what());
    }
  }
}

std::vector<FoundRecord> find_records(const Comparison& comparison,
                                      std::vector<std::string>& remarks) {
  std::vector<FoundRecord> found;
  for (const TaskTable& table : comparison.tasks) {
    for (const Entry& entry : table.entries) {
      for (std::size_t i = 0; i < entry.paths.size(); ++i) {
        find_in_run(table, entry, i, found, remarks);
      }
    }
  }
  return found;
}

}  // namespace

std::string example_key(const runs::AttentionExample& e) {
  std::string key = fmt::format("{} {} {} {} {}", e.task, e.axis, e.length, e.sample, e.seed);
  for (const std::int64_t id : e.token_ids) key += fmt::format(" {}", id);
  return sha256_hex(key).substr(0, 16);
}

std::vector<FoundRecord> choose_records(const Comparison& comparison,
                                        std::vector<std::string>& remarks) {
  const std::vector<FoundRecord> found = find_records(comparison, remarks);
  std::map<std::string, std::set<const Entry*>> entries_with;
  for (const FoundRecord& f : found) entries_with[example_key(f.example)].insert(f.entry);
  const auto shared_by = [&](const FoundRecord& f) {
    return entries_with[example_key(f.example)].size();
  };
  std::vector<FoundRecord> chosen;
  for (const FoundRecord& f : found) {
    const auto before = std::find_if(chosen.begin(), chosen.end(),
                                     [&](const FoundRecord& c) { return c.entry == f.entry; });
    if (before == chosen.end()) {
      chosen.push_back(f);
    } else if (shared_by(f) > shared_by(*before)) {
      *before = f;
    }
  }
  return chosen;
}

}  // namespace posenc::report
