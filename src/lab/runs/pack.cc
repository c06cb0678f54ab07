#include "runs/pack.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <map>
#include <string>

#include "runs/archive.h"
#include "runs/files.h"
#include "runs/pack_index.h"
#include "runs/pack_run.h"
#include "runs/run_directory.h"
#include "runs/run_search.h"
#include "runs/tar_entries.h"
#include "system/scratch_folder.h"
#include "system/sha256.h"
#include "weights/messages.h"

namespace posenc::runs {
namespace {

namespace fs = std::filesystem;

using NamedRuns = std::map<std::string, fs::path>;  // by the name in the pack

Error refused(const fs::path& path, const std::string& rule, const std::string& hint) {
  return file_error(ErrorKind::kConflict, path.string(), "", rule, "", hint);
}

// Below `folder`, or its own name where it is a run itself.
std::string name_in_pack(const fs::path& run, const fs::path& folder) {
  const fs::path below = run.lexically_relative(folder);
  return below == "." ? run.filename().string() : below.generic_string();
}

void check_name(const fs::path& run, const std::string& name) {
  constexpr std::string_view kLongestFile = "/checkpoints/step-00000000/model.safetensors";
  if (is_plain_path(name) && fits_tar(name + std::string(kLongestFile))) return;
  throw refused(
      run, fmt::format("has the name {}, which an archive cannot hold", weights::in_quotes(name)),
      "rename the folder: shorter, without control characters or backslashes");
}

void require_idle(const fs::path& run) {
  if (!RunDirectory::open(run, Access::kRead).in_use()) return;
  throw refused(run, "is being written to by a process", "pack it once the process has ended");
}

void add_run(const fs::path& run, const std::string& name, NamedRuns& found) {
  check_name(run, name);
  const auto [other, fresh] = found.emplace(name, run);
  if (fresh || other->second == run) return;
  throw refused(run,
                fmt::format("has the same name as {}", weights::in_quotes(other->second.string())),
                "pack the folder above both, or make two packs");
}

void add_runs(const fs::path& given, NamedRuns& found) {
  std::error_code error;
  const fs::path folder = fs::canonical(given, error);
  if (error || !fs::is_directory(folder)) {
    throw refused(given, "is not a folder", "name folders with runs, such as runs/demo");
  }
  bool any = false;
  for (const fs::path& path : find_run_paths(folder)) {
    if (!RunDirectory::exists(path)) continue;  // a pack
    add_run(path, name_in_pack(path, folder), found);
    any = true;
  }
  if (!any) throw refused(given, "holds no runs", "check the path");
}

NamedRuns collect(const std::vector<fs::path>& folders) {
  NamedRuns found;
  for (const fs::path& folder : folders) add_runs(folder, found);
  for (const auto& [name, run] : found) require_idle(run);
  return found;
}

void check_target(const fs::path& pack) {
  if (fs::is_directory(pack)) {
    throw refused(pack, "is a folder", "name a file: -o " + (pack / "runs.tar.zst").string());
  }
  (void)output_target(pack.string());
  require_archive_tools(pack);
}

PackIndex index_of(const fs::path& folder) {
  PackIndex index;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    index.files.push_back({entry.path().lexically_relative(folder).generic_string(),
                           static_cast<std::int64_t>(entry.file_size()),
                           sha256_of_file(entry.path().string())});
  }
  std::sort(index.files.begin(), index.files.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return index;
}

void require_not_stopped(const fs::path& path, const PackOptions& options, const char* what) {
  if (options.stop == nullptr || !*options.stop) return;
  throw refused(path, fmt::format("{}: interrupted", what), "nothing was written");
}

std::vector<std::string> copy_runs(const NamedRuns& runs, const fs::path& files,
                                   const PackOptions& options) {
  std::vector<std::string> messages;
  for (const auto& [name, run] : runs) {
    require_not_stopped(run, options, "was not packed");
    copy_for_pack(run, files / name, options, messages);
    require_idle(run);  // a process may have begun meanwhile
  }
  return messages;
}

void put_in_place(const fs::path& written, const fs::path& pack) {
  const Descriptor file = open_to_read(written.string());
  if (::fsync(file.number()) != 0 || ::rename(written.c_str(), pack.c_str()) != 0) {
    throw write_error(pack.string(), errno);
  }
  sync_folder(folder_of(pack.string()));
}

}  // namespace

Packed pack_runs(const std::vector<fs::path>& folders, const fs::path& pack,
                 const PackOptions& options) {
  check_target(pack);
  const NamedRuns runs = collect(folders);
  const fs::path target = output_target(pack.string());
  const ScratchFolder scratch(target);
  const fs::path files = scratch.path() / "files";
  Packed packed{.runs = std::ssize(runs), .messages = copy_runs(runs, files, options)};
  const PackIndex index = index_of(files);
  const std::string text = pack_index_text(index);
  (void)parse_pack_index(text, pack.string());  // refuses what unpacking would refuse
  atomic_write(files / kPackIndexFile, text);
  std::vector<std::string> names = {kPackIndexFile};
  for (const ManifestFile& file : index.files) {
    names.push_back(file.name);
    packed.bytes += file.size;
  }
  const fs::path written = scratch.path() / pack.filename();
  Archive(written, scratch.path(), pack.string()).write(files, names);
  packed.archive_bytes = static_cast<std::int64_t>(fs::file_size(written));
  require_not_stopped(pack, options, "was not written");
  put_in_place(written, target);
  return packed;
}

}  // namespace posenc::runs
