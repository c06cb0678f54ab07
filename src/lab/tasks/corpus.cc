#include "tasks/corpus.h"

#include <fmt/format.h>

#include "posenc/core/error.h"
#include "system/sha256.h"
#include "tasks/corpus_split.h"
#include "tasks/number_table.h"

namespace posenc::tasks {
namespace {

constexpr std::array<std::string_view, 3> kSplitNames = {"training", "validation", "test"};

std::size_t drop_tables(std::vector<Document>& documents) {
  return std::erase_if(documents, [](const Document& d) { return is_number_table(d.bytes); });
}

double megabytes(const std::vector<Document>& documents) {
  std::size_t bytes = 0;
  for (const Document& document : documents) bytes += document.bytes.size();
  return static_cast<double>(bytes) * 1e-6;
}

}  // namespace

Corpus::Corpus(const CorpusFiles& files, std::string_view scope) {
  LoadedFiles loaded = load_files(files, scope);
  storage_ = std::move(loaded.storage);
  if (!files.keep_tables) tables_ = drop_tables(loaded.documents);
  if (loaded.documents.empty()) {
    throw Error(ErrorKind::kConflict,
                {.scope = std::string(scope),
                 .key = "path",
                 .rule = "must hold text, and every file is a table of numbers",
                 .value = fmt::format("{} files", tables_),
                 .hint = "set keep_tables: true to train on them"});
  }
  const bool one_text = loaded.documents.size() == 1;
  documents_ =
      one_text ? split_text(loaded.documents.front(), files) : split_files(loaded.documents, files);
  for (const Split split : {Split::kValidation, Split::kTest}) {
    too_short_ += std::erase_if(
        documents_[static_cast<std::size_t>(split)],
        [&](const Document& d) { return std::ssize(d.bytes) <= files.longest_context; });
  }
  // One text is measured alone: without its only training document nothing would be left.
  overlap_ = drop_near_duplicates(documents_, one_text ? 1.0 : files.max_shared);
}

std::string Corpus::content_hash() const {
  Sha256 hash;
  for (const std::vector<Document>& documents : documents_) {
    hash.update(fmt::format("{}\n", documents.size()));
    for (const Document& document : documents) {
      hash.update(fmt::format("{}\n{}\n", document.name, document.bytes.size()));
      hash.update(std::as_bytes(document.bytes));
    }
  }
  return hash.hex();
}

std::string Corpus::summary() const {
  std::string text;
  for (std::size_t s = 0; s < documents_.size(); ++s) {
    text += fmt::format("{}{} {} documents ({:.2f} MB)", s == 0 ? "" : ", ", documents_[s].size(),
                        kSplitNames[s], megabytes(documents_[s]));
  }
  text += fmt::format("; {:.1f} % of the held-out 50-byte strings occur in training",
                      100.0 * overlap_.after);
  if (overlap_.dropped > 0) {
    text += fmt::format(" ({:.1f} % before {} near-duplicates were dropped)",
                        100.0 * overlap_.before, overlap_.dropped);
  }
  if (tables_ > 0) text += fmt::format("; dropped {} tables of numbers", tables_);
  if (too_short_ > 0) {
    text += fmt::format("; left out {} held-out documents within longest_context", too_short_);
  }
  return text;
}

}  // namespace posenc::tasks
