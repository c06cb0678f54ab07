#include "cli/evidence_files.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/bind.h"
#include "posenc/core/error.h"

namespace posenc::cli {

namespace fs = std::filesystem;

EvidenceFiles::EvidenceFiles(const fs::path& root) : root_(root == "." ? fs::path() : root) {}

std::vector<std::string> EvidenceFiles::names() const {
  std::vector<std::string> names;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(configs(), error)) {
    if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
  }
  if (names.empty()) {
    throw Error(ErrorKind::kIo,
                {.scope = "reproduce",
                 .key = configs().string(),
                 .rule = "has no evidence files",
                 .value = "",
                 .hint = "run it in the root of the repository, or name it: --root"});
  }
  std::sort(names.begin(), names.end());
  return names;
}

sweep::EvidenceFile EvidenceFiles::read(const std::string& name) const {
  const std::vector<std::string> known = names();
  if (std::find(known.begin(), known.end(), name) == known.end()) {
    const std::vector<std::string_view> views(known.begin(), known.end());
    throw Error(ErrorKind::kUnknownKey, {.scope = "reproduce",
                                         .key = "NAME",
                                         .rule = "must be a page of " + pages().string(),
                                         .value = "'" + name + "'",
                                         .hint = suggestion(name, views)});
  }
  return sweep::read_evidence((configs() / (name + ".yaml")).string());
}

fs::path EvidenceFiles::page(const std::string& name) const { return pages() / (name + ".md"); }

fs::path EvidenceFiles::picture(const std::string& name, const std::string& part) const {
  return pages() / name / (part + ".svg");
}

fs::path EvidenceFiles::runs_folder(const sweep::EvidencePart& part, const std::string& out) const {
  return out.empty() ? root_ / part.sweep.out : fs::path(out) / part.name;
}

fs::path EvidenceFiles::rows_file(const sweep::MeasuredPart& part, const std::string& out) const {
  return out.empty() ? root_ / part.out : fs::path(out) / (part.name + ".json");
}

std::vector<report::Run> EvidenceFiles::committed(const std::string& name,
                                                  const std::string& part) const {
  const fs::path folder = pages() / name / part;
  const fs::path pack = pages() / name / (part + ".tar.zst");
  if (fs::exists(folder) && fs::exists(pack)) {
    throw Error(ErrorKind::kConflict, {.scope = "reproduce",
                                       .key = folder.string(),
                                       .rule = "is there as a folder and as a pack",
                                       .value = "",
                                       .hint = "remove one of them"});
  }
  if (fs::exists(pack)) return report::find_runs({pack.string()});
  if (fs::exists(folder)) return report::find_runs({folder.string()});
  return {};
}

std::string EvidenceFiles::committed_rows(const std::string& name, const std::string& part) const {
  const fs::path file = pages() / name / (part + ".json");
  return fs::exists(file) ? read_file(file.string()) : "";
}

report::EvidencePart make_part(const sweep::EvidenceFile& file, const sweep::EvidencePart& part,
                               std::size_t jobs, std::vector<report::Run> runs) {
  report::EvidencePart made{.page = file.name,
                            .part = part.name,
                            .jobs = jobs,
                            .runs = std::move(runs),
                            .comparison = {},
                            .published = {}};
  made.comparison = report::compare(made.runs);
  for (const runs::PublishedTable& table : file.published) {
    if (table.part == part.name) made.published.push_back(table);
  }
  return made;
}

}  // namespace posenc::cli
