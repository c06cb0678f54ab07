#include <fmt/format.h>

#include <filesystem>

#include "cli/data_verbs.h"
#include "core/strings.h"
#include "datasets/fetch.h"
#include "posenc/core/error.h"
#include "tasks/corpus_files.h"
#include "tasks/corpus_names.h"

namespace posenc::cli {
namespace {

namespace fs = std::filesystem;

std::string path_of(const std::string& corpus) {
  std::error_code code;
  if (fs::exists(corpus, code)) return corpus;
  std::string fetched = tasks::corpus_folder(corpus);
  const bool plain = !corpus.empty() && corpus.find('/') == std::string::npos;
  if (plain && fs::exists(fetched, code)) return fetched;
  throw Error(ErrorKind::kIo, {.scope = "data",
                               .key = "CORPUS",
                               .rule = "must be a file, a folder or a corpus that was fetched",
                               .value = corpus,
                               .hint = plain ? tasks::corpus_hint(corpus) : "check the path"});
}

}  // namespace

void add_source_options(CLI::App& verb, SourceArguments& arguments) {
  verb.add_option("CORPUS", arguments.corpora,
                  "files, folders, or corpora that posenc data NAME has fetched; each line of a "
                  ".jsonl file is a document")
      ->required();
  verb.add_option("--suffixes", arguments.suffixes,
                  "endings of the files to take from folders, such as .py,.pyi (default: all)");
  verb.add_option("--field", arguments.field, "field of a .jsonl line that has the text")
      ->capture_default_str();
}

tokens::SourceOptions source_options(const SourceArguments& arguments) {
  tokens::SourceOptions options{.paths = {}, .suffixes = {}, .field = arguments.field};
  for (const std::string& corpus : arguments.corpora) options.paths.push_back(path_of(corpus));
  for (const std::string_view suffix : split(arguments.suffixes, ',')) {
    if (!suffix.empty()) options.suffixes.emplace_back(suffix);
  }
  return options;
}

std::string licences_of(const SourceArguments& arguments) {
  std::string all;
  for (const std::string& corpus : arguments.corpora) {
    const fs::path manifest = fs::path(path_of(corpus)) / "manifest.json";
    std::error_code code;
    if (!fs::exists(manifest, code)) continue;
    const std::string licence = datasets::read_manifest(manifest).licence;
    if (licence.empty() || all.find(licence) != std::string::npos) continue;
    all += (all.empty() ? "" : "; ") + licence;
  }
  return all;
}

std::string megabytes(std::int64_t bytes) {
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) * 1e-6);
}

}  // namespace posenc::cli
