#include "tasks/corpus_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "core/bind.h"
#include "core/open_file.h"
#include "core/strings.h"
#include "posenc/core/error.h"
#include "tasks/corpus_names.h"

namespace posenc::tasks {
namespace {

namespace fs = std::filesystem;

struct FoundFile {
  std::string name;
  fs::path path;
  std::uint64_t size = 0;
};

std::vector<std::string> parts_of(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (const std::string_view part : split(text, separator)) {
    if (!part.empty()) parts.emplace_back(part);
  }
  return parts;
}

class Finder {
 public:
  Finder(const CorpusFiles& files, std::string_view scope)
      : files_(files), scope_(scope), suffixes_(parts_of(files.suffixes, ',')) {}

  std::vector<FoundFile> find() {
    for (const std::string& root : roots()) add_root(root);
    std::sort(found_.begin(), found_.end(), [](const FoundFile& a, const FoundFile& b) {
      return std::tie(a.name, a.path) < std::tie(b.name, b.path);
    });
    if (found_.empty()) {
      throw failure(ErrorKind::kIo, "path", "must hold files that are not empty", where(),
                    suffixes_.empty() ? "" : fmt::format("suffixes is {}", files_.suffixes));
    }
    return std::move(found_);
  }

  [[nodiscard]] Error failure(ErrorKind kind, std::string key, std::string rule, std::string value,
                              std::string hint = "") const {
    return {kind,
            {.scope = std::string(scope_),
             .key = std::move(key),
             .rule = std::move(rule),
             .value = std::move(value),
             .hint = std::move(hint)}};
  }
  [[nodiscard]] std::string where() const {
    return files_.corpus.empty() ? files_.path : corpus_folder(files_.corpus);
  }

 private:
  std::vector<std::string> roots() const {
    if (files_.corpus.empty() == files_.path.empty()) {
      throw failure(
          ErrorKind::kConflict, "path",
          files_.path.empty() ? "or corpus must be given" : "and corpus exclude each other", "",
          "name files or folders with path, or a fetched corpus with corpus");
    }
    if (files_.corpus.empty()) return parts_of(files_.path, ':');
    return {corpus_folder(files_.corpus)};
  }

  void add_root(const std::string& root) {
    std::error_code code;
    const fs::file_status status = fs::status(root, code);
    if (fs::is_regular_file(status)) return add_file(root, fs::path(root).filename());
    if (fs::is_directory(status)) return add_folder(root);
    if (!files_.corpus.empty()) {
      throw failure(ErrorKind::kIo, "corpus", fmt::format("must have been fetched into {}", root),
                    files_.corpus, corpus_hint(files_.corpus));
    }
    if (fs::exists(status)) (void)open_to_read(root);  // says what it is: a FIFO, a device, ...
    throw failure(ErrorKind::kIo, "path", "must be a file or a folder that can be read", root);
  }

  // Links are not followed: a folder is read once, whatever points at it.
  void add_folder(const std::string& root) {
    std::error_code code;
    fs::recursive_directory_iterator entry(root, code);
    for (; !code && entry != fs::recursive_directory_iterator(); entry.increment(code)) {
      std::error_code ignored;
      if (entry->is_symlink(ignored) || !entry->is_regular_file(ignored)) continue;
      const fs::path name = entry->path().lexically_relative(root);
      if (!files_.corpus.empty() && name == "manifest.json") continue;  // of `posenc data`
      add_file(entry->path(), name);
    }
    if (code) throw failure(ErrorKind::kIo, "path", "must be readable", root, code.message());
  }

  void add_file(const fs::path& path, const fs::path& name) {
    const std::string text = name.generic_string();
    const auto fits = [&](const std::string& suffix) { return text.ends_with(suffix); };
    if (!suffixes_.empty() && std::none_of(suffixes_.begin(), suffixes_.end(), fits)) return;
    std::error_code code;
    const std::uint64_t size = fs::file_size(path, code);
    if (code) throw failure(ErrorKind::kIo, "path", "must be readable", path, code.message());
    if (size > 0) found_.push_back({text, path, size});
  }

  const CorpusFiles& files_;
  std::string_view scope_;
  std::vector<std::string> suffixes_;
  std::vector<FoundFile> found_;
};

void read_into(const FoundFile& file, std::uint8_t* into, const Finder& finder) {
  const std::span<char> whole(reinterpret_cast<char*>(into), static_cast<std::size_t>(file.size));
  const std::string path = file.path.string();
  if (read_bytes(open_to_read(path), whole, path) == whole.size()) return;
  throw finder.failure(ErrorKind::kIo, "path", "must be readable to its end", file.path);
}

}  // namespace

std::string corpus_folder(std::string_view name) {
  const auto variable = [](const char* key) -> std::string {
    const char* value = std::getenv(key);  // NOLINT(concurrency-mt-unsafe)
    return value == nullptr ? "" : value;
  };
  fs::path folder = variable("POSENC_DATA");
  if (folder.empty() && !variable("XDG_DATA_HOME").empty()) {
    folder = fs::path(variable("XDG_DATA_HOME")) / "posenc";
  }
  if (folder.empty()) folder = fs::path(variable("HOME")) / ".local/share/posenc";
  return (folder / name).string();
}

std::string path_or_corpus(const std::string& given) {
  std::error_code ignored;
  const std::string named = corpus_folder(given);
  return !fs::exists(given, ignored) && fs::exists(named, ignored) ? named : given;
}

LoadedFiles load_files(const CorpusFiles& files, std::string_view scope) {
  Finder finder(files, scope);
  const std::vector<FoundFile> found = finder.find();
  std::uint64_t total = 0;
  for (const FoundFile& file : found) total += file.size;
  if (total > static_cast<std::uint64_t>(files.max_megabytes) * 1000000u) {
    throw finder.failure(ErrorKind::kResource, "path",
                         fmt::format("must hold at most {} MB", files.max_megabytes),
                         fmt::format("{} MB in {} files", total / 1000000u, found.size()),
                         "choose fewer with suffixes, or raise max_megabytes");
  }
  LoadedFiles loaded;
  loaded.storage.resize(total);
  std::size_t start = 0;
  for (const FoundFile& file : found) {
    read_into(file, loaded.storage.data() + start, finder);
    loaded.documents.push_back({file.name, Bytes(loaded.storage).subspan(start, file.size)});
    start += file.size;
  }
  return loaded;
}

}  // namespace posenc::tasks
