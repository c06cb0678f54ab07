// posenc data dedup: a corpus without near-duplicate documents.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>

#include "cli/data_verbs.h"
#include "cli/print.h"
#include "core/value.h"
#include "posenc/core/error.h"
#include "system/file_errors.h"
#include "system/files.h"
#include "system/folders.h"
#include "system/scratch_folder.h"
#include "system/stop_request.h"
#include "tasks/minhash.h"

namespace posenc::cli {
namespace {

namespace fs = std::filesystem;

struct DedupArguments {
  SourceArguments sources;
  std::string output;
  std::string report;
  double threshold = 0.8;
};

constexpr std::size_t kShown = 10;

struct Removed {
  std::string name;
  std::string kept;
  double resemblance = 0.0;
};

// Documents in files of the names that they came from, and lines of .jsonl files as they were.
class CleanCorpus {
 public:
  explicit CleanCorpus(const fs::path& target) : parents_(target.parent_path()), scratch_(target) {
    files_ = scratch_.path() / "files";
    fs::create_directory(files_);
  }
  void add(const tokens::SourceDocument& document) {
    if (document.line.empty()) return write(document.name, document.text);
    const std::string file = document.name.substr(0, document.name.rfind(':'));
    if (file != lines_of_) {
      close_lines();
      lines_.emplace(path_of(file), false);
      lines_of_ = file;
    }
    lines_->write(document.line);
    lines_->write("\n");
  }
  void finish(const fs::path& target) {
    close_lines();
    // Once for all files: a sync for each of thousands would take most of the time.
    const Descriptor folder = open_own_folder(files_);
    if (::syncfs(folder.number()) != 0) throw write_error(target.string(), errno);
    fs::rename(files_, target);
    sync_folder(target.parent_path().string());
    parents_.keep();
  }

 private:
  void close_lines() {
    if (lines_) lines_->commit();
    lines_.reset();
  }
  void write(const std::string& name, const std::string& text) const {
    const std::string path = path_of(name);
    std::ofstream file(path, std::ios::binary);
    if (!(file << text).flush()) throw write_error(path, errno);
  }
  [[nodiscard]] std::string path_of(const std::string& name) const {
    const fs::path path = files_ / name;
    fs::create_directories(path.parent_path());
    if (fs::exists(path)) {
      throw Error(ErrorKind::kConflict, {.scope = "data dedup",
                                         .key = "CORPUS",
                                         .rule = "must not have two files of one name",
                                         .value = name,
                                         .hint = "put them into folders below one folder"});
    }
    return path.string();
  }

  NewFolders parents_;
  ScratchFolder scratch_;
  fs::path files_;
  std::string lines_of_;  // the .jsonl file that is written
  std::optional<AtomicFile> lines_;
};

std::string report_text(const std::vector<Removed>& removed) {
  std::string text;
  for (const Removed& one : removed) {
    const Value::Map line = {{"removed", Value::of_string(one.name)},
                             {"resembles", Value::of_string(one.kept)},
                             {"resemblance", Value(Value::Data(one.resemblance))}};
    text += to_json(Value(Value::Data(line))) + "\n";
  }
  return text;
}

void require_new(const std::string& path) {
  if (!fs::exists(fs::symlink_status(path))) return;
  throw Error(ErrorKind::kConflict, {.scope = "data dedup",
                                     .key = "output",
                                     .rule = "must be new",
                                     .value = path,
                                     .hint = "name another folder with -o"});
}

int dedup(const DedupArguments& arguments) {
  require_new(arguments.output);
  if (!arguments.report.empty()) (void)output_target(arguments.report);
  const fs::path target = fs::absolute(arguments.output).lexically_normal();
  tasks::NearDuplicates duplicates(arguments.threshold);
  const StopRequest stop;
  CleanCorpus clean(target);
  std::vector<std::string> kept;
  std::vector<Removed> removed;
  std::int64_t bytes = 0;
  std::int64_t removed_bytes = 0;
  for_each_document(source_options(arguments.sources), [&](tokens::SourceDocument& document) {
    if (stop.requested()) {
      throw Error(ErrorKind::kIo, {.scope = "data dedup",
                                   .key = "",
                                   .rule = "was interrupted " + stop.reason(),
                                   .value = "",
                                   .hint = "nothing was written; run it again"});
    }
    const auto size = std::ssize(document.text);
    bytes += size;
    const auto match = duplicates.add(
        {reinterpret_cast<const std::uint8_t*>(document.text.data()), document.text.size()});
    if (match) {
      removed_bytes += size;
      removed.push_back({document.name, kept[match->kept], match->resemblance});
      return;
    }
    kept.push_back(document.name);
    clean.add(document);
  });
  clean.finish(target);
  if (!arguments.report.empty()) write_output(arguments.report, report_text(removed));
  print("{}: {} documents ({}), {} near-duplicates ({}) removed at resemblance {}\n",
        arguments.output, kept.size(), megabytes(bytes - removed_bytes), removed.size(),
        megabytes(removed_bytes), arguments.threshold);
  for (std::size_t i = 0; i < std::min(kShown, removed.size()); ++i) {
    print("  {} resembles {} ({:.2f})\n", removed[i].name, removed[i].kept, removed[i].resemblance);
  }
  if (removed.size() > kShown) {
    print("  ... and {} more; --report FILE lists all\n", removed.size() - kShown);
  }
  return kFine;
}

}  // namespace

void add_data_dedup(CLI::App& data, Action& chosen) {
  CLI::App* verb =
      data.add_subcommand("dedup", "Copy a corpus without its near-duplicate documents (MinHash)");
  auto arguments = std::make_shared<DedupArguments>();
  add_source_options(*verb, arguments->sources);
  verb->add_option("-o,--output", arguments->output, "folder of the documents that are kept")
      ->required();
  verb->add_option("--threshold", arguments->threshold,
                   "resemblance from which on documents are duplicates: the share of their 32-byte "
                   "strings that both have")
      ->capture_default_str();
  verb->add_option("--report", arguments->report, "write what was removed as JSONL");
  verb->footer(
      "Examples:\n"
      "  posenc data dedup python -o python-clean --report removed.jsonl\n"
      "  posenc data dedup web.jsonl --field content --threshold 0.7 -o web-clean\n");
  verb->callback([&chosen, arguments] { chosen = [arguments] { return dedup(*arguments); }; });
}

}  // namespace posenc::cli
