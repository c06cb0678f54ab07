#include "runs/archive.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/value.h"
#include "system/file_errors.h"
#include "system/files.h"
#include "system/process.h"

namespace posenc::runs {
namespace {

namespace fs = std::filesystem;

struct Format {
  std::string_view ending;
  std::string program;  // that compresses; empty: none
  std::vector<std::string> compress;
};

const std::array<Format, 3>& formats() {
  static const std::array<Format, 3> kFormats = {{
      {".tar.zst", "zstd", {"-19", "--long=27", "-T1", "--check"}},
      {".tar.gz", "gzip", {"-9", "-n"}},  // -n: without name and time
      {".tar", "", {}},
  }};
  return kFormats;
}

// Of the system, in the C locale: the disk is at fault, not the archive.
constexpr std::array<std::string_view, 3> kWriteErrors = {"No space left", "quota exceeded",
                                                          "Input/output error"};

const Format* format_of(const fs::path& path) {
  const std::string name = path.filename().string();
  for (const Format& format : formats()) {
    if (name.size() > format.ending.size() && name.ends_with(format.ending)) return &format;
  }
  return nullptr;
}

const Format& require_format(const fs::path& path) {
  if (const Format* format = format_of(path)) return *format;
  throw file_error(ErrorKind::kUnsupported, path.string(), "",
                   "does not end in .tar.zst, .tar.gz or .tar", "",
                   "the ending says how a pack is compressed");
}

void require_program(const fs::path& path, const std::string& program) {
  try {
    (void)run_command({.words = {program, "--version"}, .folder = "", .output = "/dev/null"});
  } catch (const Error& e) {
    const bool other = program == "zstd";
    throw file_error(
        ErrorKind::kIo, path.string(), "",
        fmt::format("needs the program {}, which {}", program, e.rule()), "",
        fmt::format("install {}{}", program, other ? ", or use packs that end in .tar.gz" : ""));
  }
}

Error too_large(const std::string& shown, std::int64_t most_bytes) {
  return file_error(ErrorKind::kResource, shown, "",
                    fmt::format("unpacks to more than {} bytes", most_bytes), "",
                    "no pack is that large: the file is damaged or hostile");
}

std::int64_t size_of(const fs::path& path) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path, error);
  return error ? 0 : static_cast<std::int64_t>(size);
}

}  // namespace

bool is_archive_name(const fs::path& path) { return format_of(path) != nullptr; }

void require_archive_tools(const fs::path& path) {
  const Format& format = require_format(path);
  require_program(path, "tar");
  if (!format.program.empty()) require_program(path, format.program);
}

Archive::Archive(const fs::path& path, fs::path scratch, std::string shown)
    : path_(fs::absolute(path)), scratch_(std::move(scratch)), shown_(std::move(shown)) {
  (void)require_format(path_);
}

Ending Archive::execute(std::vector<std::string> words) const {
  std::error_code ignored;
  fs::remove(log(), ignored);
  // Options in the user's environment would change the bytes.
  return run_command({.words = std::move(words),
                      .folder = "",
                      .output = log().string(),
                      .environment = {{"LC_ALL", "C"}, {"TAR_OPTIONS", ""}, {"GZIP", ""}}});
}

Error Archive::failure(const std::string& what, const std::string& program,
                       const Ending& ending) const {
  const std::string said = last_line(log().string());
  return file_error(ErrorKind::kIo, shown_, "",
                    fmt::format("{}: {} ended with {}{}{}", what, program, ending_text(ending),
                                said.empty() ? "" : ": ", said),
                    "", "");
}

void Archive::run(const std::string& what, std::vector<std::string> words) const {
  const std::string program = words.front();
  const Ending ending = execute(std::move(words));
  if (!ending.fine()) throw failure(what, program, ending);
}

void Archive::write(const fs::path& folder, const std::vector<std::string>& names) const {
  std::string list;
  for (const std::string& name : names) list.append(name).push_back('\0');
  const fs::path list_file = scratch_ / "names";
  AtomicFile file(list_file.string(), true);
  file.write(list);
  file.commit();
  const Format& format = require_format(path_);
  const fs::path target = format.program.empty() ? path_ : tar();
  run("cannot be written",
      {"tar", "--create", "--format=ustar", "--file=" + target.string(),
       "--directory=" + folder.string(), "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner",
       "--mode=0644", "--no-recursion", "--null", "--verbatim-files-from",
       "--files-from=" + list_file.string()});
  if (format.program.empty()) return;
  std::vector<std::string> words = {"sh", "-c",           R"(to="$1"; shift; exec "$@" > "$to")",
                                    "sh", path_.string(), format.program};
  words.insert(words.end(), format.compress.begin(), format.compress.end());
  words.insert(words.end(), {"-q", "-c", tar().string()});
  run("cannot be compressed", std::move(words));
}

fs::path Archive::decompress(std::int64_t most_bytes) const {
  constexpr std::int64_t kShellBlock = 512;  // of ulimit
  const Format& format = require_format(path_);
  if (size_of(path_) > most_bytes) throw too_large(shown_, most_bytes);
  const std::string program = format.program.empty() ? "cat" : format.program;
  const std::string options = format.program.empty() ? "--" : "-dcq";
  const Ending ending =
      execute({"sh", "-c", R"(ulimit -f "$1" 2> /dev/null; exec "$2" "$3" "$4" > "$5")", "sh",
               std::to_string(most_bytes / kShellBlock + 1), program, options, path_.string(),
               tar().string()});
  const std::int64_t written = size_of(tar());
  if (written > most_bytes || (!ending.fine() && written == most_bytes)) {
    throw too_large(shown_, most_bytes);
  }
  if (ending.fine()) return tar();
  // The decompressor shortens the path in its message, but for what its output met.
  const std::string said = last_line(log().string());
  const bool unwritten =
      std::any_of(kWriteErrors.begin(), kWriteErrors.end(),
                  [&](std::string_view text) { return said.find(text) != std::string::npos; });
  if (ending.signal != 0 || unwritten) {
    throw failure("cannot be decompressed", program, ending);
  }
  throw file_error(ErrorKind::kIo, shown_, "", "cannot be decompressed", "",
                   "the file is damaged or incomplete; copy it again");
}

void Archive::extract(const fs::path& folder) const {
  run("cannot be extracted",
      {"tar", "--extract", "--file=" + tar().string(), "--directory=" + folder.string(),
       "--no-same-owner", "--no-same-permissions", "--touch"});
}

std::string Archive::first_bytes(std::size_t count) const {
  const Format& format = require_format(path_);
  const std::string start = (scratch_ / "start").string();
  const std::string program = format.program.empty() ? "cat" : format.program;
  const std::string options = format.program.empty() ? "--" : "-dcq";
  run("cannot be read", {"sh", "-c", R"("$1" "$2" "$3" 2> /dev/null | head -c "$4" > "$5")", "sh",
                         program, options, path_.string(), std::to_string(count), start});
  return read_file(start);
}

}  // namespace posenc::runs
