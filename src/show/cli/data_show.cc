// posenc data: the corpora and token files that are there, or one of them in full.
#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "cli/data_verbs.h"
#include "cli/print.h"
#include "cli/table.h"
#include "core/value.h"
#include "datasets/fetch.h"
#include "posenc/core/error.h"
#include "system/folders.h"
#include "tasks/corpus_files.h"
#include "tokens/token_files.h"

namespace posenc::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kShortHash = 8;

std::string count_text(std::int64_t count) {
  if (count >= 10'000'000) return fmt::format("{:.1f} M", static_cast<double>(count) * 1e-6);
  return count >= 100'000 ? fmt::format("{:.0f} k", static_cast<double>(count) * 1e-3)
                          : std::to_string(count);
}

// A split that is made when a task reads the files, by its own fields.
std::string corpus_split() {
  const tasks::CorpusFiles usual;
  const double held_out = usual.validation_share + usual.test_share;
  return fmt::format("{:.0f} / {:.0f} / {:.0f} % when read", 100 * (1 - held_out),
                     100 * usual.validation_share, 100 * usual.test_share);
}

std::string token_split(const tokens::TokenIndex& index) {
  return fmt::format("{} / {} / {} tokens", count_text(index.splits[0].tokens),
                     count_text(index.splits[1].tokens), count_text(index.splits[2].tokens));
}

void add_corpus(Table& table, const datasets::Corpus& corpus) {
  const std::string name(corpus.name);
  const fs::path manifest = fs::path(tasks::corpus_folder(name)) / "manifest.json";
  std::string size = "not fetched";
  std::string hash = "-";
  try {
    if (fs::exists(manifest)) {
      const datasets::Manifest m = datasets::read_manifest(manifest);
      size = fmt::format("{} files, {}", m.files, megabytes(m.bytes));
      hash = m.content_sha256.substr(0, kShortHash);
    }
  } catch (const std::exception&) {
    size = "unreadable";
  }
  table.add({name, size, hash, std::string(corpus.licence), corpus_split()});
}

void add_token_files(Table& table, const fs::path& folder) {
  const std::string name = folder.filename().string();
  try {
    const tokens::TokenFiles files(folder.string());
    const tokens::TokenIndex& index = files.index();
    table.add({name, megabytes(index.tokens() * index.token_bytes),
               files.sha256().substr(0, kShortHash), index.licence, token_split(index)});
  } catch (const std::exception&) {
    table.add({name, "unreadable", "-", "-", "-"});
  }
}

void show_tokens(const std::string& folder, bool verify) {
  const tokens::TokenFiles files(folder);
  if (verify) files.verify();
  const tokens::TokenIndex& index = files.index();
  print("{}: {} tokens of {} documents ({}), {:.3f} bytes per token\n", folder, index.tokens(),
        index.documents(), megabytes(index.bytes()),
        static_cast<double>(index.bytes()) /
            static_cast<double>(std::max<std::int64_t>(1, index.tokens())));
  Table table({"split", "tokens", "documents", "text", "shards"});
  for (std::size_t s = 0; s < index.splits.size(); ++s) {
    const tokens::TokenSplit& split = index.splits[s];
    table.add({std::string(tokens::kSplitNames[s]), std::to_string(split.tokens),
               std::to_string(split.documents), megabytes(split.bytes),
               std::to_string(split.shards.size())});
  }
  print_table(table);
  print("source      {}\nlicence     {}\nSHA-256     {} ({})\n", index.source, index.licence,
        files.sha256(), verify ? "all files verified" : "sizes checked; --verify reads all files");
  print("vocabulary  {}, SHA-256 {}\n", index.vocabulary, index.tokenizer_sha256);
}

void show_corpus(const fs::path& folder) {
  const datasets::Manifest m = datasets::read_manifest(folder / "manifest.json");
  print("{}: {} files, {}, in {}\n", m.name, m.files, megabytes(m.bytes), folder.string());
  print("source      {}\nlicence     {}\nSHA-256     {}\nsplit       {}\n", m.source, m.licence,
        m.content_sha256, corpus_split());
}

}  // namespace

void print_data_list() {
  Table table({"name", "size", "SHA-256", "licence", "train / validation / test"});
  for (const datasets::Corpus& corpus : datasets::catalog()) add_corpus(table, corpus);
  const fs::path root = tasks::corpus_folder("");
  for (const std::string& name : names_in(root)) {
    if (fs::exists(root / name / "index.json")) add_token_files(table, root / name);
  }
  print_table(table);
}

bool show_data(const std::string& path, bool verify) {
  std::error_code code;
  for (const fs::path& folder : {fs::path(path), fs::path(tasks::corpus_folder(path))}) {
    if (fs::exists(folder / "index.json", code)) {
      show_tokens(folder.string(), verify);
      return true;
    }
  }
  if (!fs::exists(fs::path(path) / "manifest.json", code)) return false;
  show_corpus(path);
  return true;
}

}  // namespace posenc::cli
