#include "runs/pack_index.h"

#include <fmt/format.h>

#include <algorithm>

#include "posenc/core/version.h"
#include "weights/messages.h"

namespace posenc::runs {
namespace {

constexpr std::string_view kRunMark = "/status.json";
constexpr std::size_t kDigestDigits = 64;

Error damaged(const std::string& path, const std::string& rule, const std::string& hint = "") {
  return file_error(ErrorKind::kIo, path, "", rule, "", hint);
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         std::none_of(name.begin(), name.end(), [](char c) {
           return c == '\\' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
         });
}

bool is_digest(std::string_view text) {
  return text.size() == kDigestDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

void check_format(std::int64_t format, const std::string& path) {
  if (format == kPackFormat) return;
  throw file_error(ErrorKind::kUnsupported, path, "format", fmt::format("must be {}", kPackFormat),
                   std::to_string(format), "unpack it with the version of posenc that wrote it");
}

void check_file(const ManifestFile& file, const std::string& path) {
  const std::string name = weights::in_quotes(file.name);
  if (!is_plain_path(file.name))
    throw damaged(path, fmt::format("names {}, which is not a plain path", name));
  if (file.size < 0) throw damaged(path, fmt::format("gives {} {} bytes", name, file.size));
  if (!is_digest(file.sha256)) throw damaged(path, fmt::format("has no SHA-256 for {}", name));
}

void check_order(const std::vector<ManifestFile>& files, const std::string& path) {
  const auto wrong = std::adjacent_find(
      files.begin(), files.end(), [](const auto& a, const auto& b) { return !(a.name < b.name); });
  if (wrong == files.end()) return;
  throw damaged(path, fmt::format("lists {} twice or out of order",
                                  weights::in_quotes(std::next(wrong)->name)));
}

// Without overflow: every size is at most what is left.
void check_total(const std::vector<ManifestFile>& files, std::int64_t most,
                 const std::string& path) {
  std::int64_t left = most;
  for (const ManifestFile& file : files) {
    if (file.size > left) {
      throw file_error(ErrorKind::kResource, path, "",
                       fmt::format("lists more than {} bytes, the most of a pack", most), "",
                       "split it into several packs");
    }
    left -= file.size;
  }
}

bool is_inside(std::string_view name, std::string_view folder) {
  return name.size() > folder.size() && name.starts_with(folder) && name[folder.size()] == '/';
}

// Each file belongs to exactly one run: runs are not nested.
void check_runs(const PackIndex& index, const std::string& path) {
  const std::vector<std::string> runs = run_names(index);
  if (runs.empty()) throw damaged(path, "lists no runs");
  for (const ManifestFile& file : index.files) {
    const auto owners = std::count_if(runs.begin(), runs.end(), [&](const std::string& run) {
      return is_inside(file.name, run);
    });
    if (owners == 1) continue;
    throw damaged(path, fmt::format("lists {}, which is {}", weights::in_quotes(file.name),
                                    owners == 0 ? "in no run" : "in a run inside another"));
  }
}

}  // namespace

bool is_plain_path(std::string_view name) {
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('/', begin), name.size());
    if (!is_plain_name(name.substr(begin, end - begin))) return false;
    begin = end + 1;
  }
  return true;
}

std::string pack_index_text(const PackIndex& index) {
  return signed_json({{"posenc", Value::of_string(POSENC_VERSION_STRING)},
                      {"format", {Value::Data(kPackFormat)}},
                      {"files", files_value(index.files)}});
}

PackIndex parse_pack_index(std::string_view text, const std::string& path,
                           std::int64_t most_bytes) {
  const Value root = parse_signed_json(text, path);
  check_format(read_whole(root, "format", path), path);
  PackIndex index{read_files(root, path)};
  for (const ManifestFile& file : index.files) check_file(file, path);
  check_order(index.files, path);
  check_total(index.files, most_bytes, path);
  check_runs(index, path);
  return index;
}

std::vector<std::string> run_names(const PackIndex& index) {
  std::vector<std::string> names;
  for (const ManifestFile& file : index.files) {
    if (!file.name.ends_with(kRunMark)) continue;
    names.push_back(file.name.substr(0, file.name.size() - kRunMark.size()));
  }
  return names;
}

}  // namespace posenc::runs
