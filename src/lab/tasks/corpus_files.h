// The files of a corpus: the fields that name them, and reading them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "posenc/core/fields.h"
#include "tasks/document.h"

namespace posenc::tasks {

// The fields that a config over files has, side by side with its own.
struct CorpusFiles {
  std::string corpus;
  std::string path;
  std::string suffixes;
  double test_share = 0.1;
  double validation_share = 0.05;
  std::int64_t longest_context = 4096;
  double max_shared = 0.1;
  bool keep_tables = false;
  std::int64_t max_megabytes = 1024;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("corpus", self.corpus,
          FieldRule{.doc = "a corpus that `posenc data NAME` has fetched, instead of path"});
    visit("path", self.path, FieldRule{.doc = "a file or folder; several are separated by colons"});
    visit("suffixes", self.suffixes,
          FieldRule{.doc = "endings of file names to take, such as .py,.pyi; none: all files"});
    visit("test_share", self.test_share,
          FieldRule{.doc = "share of the bytes that is held out to report", .min = 0, .max = 0.9});
    visit("validation_share", self.validation_share,
          FieldRule{.doc = "share that is held out to choose by: early stopping, --best",
                    .min = 0,
                    .max = 0.5});
    visit("longest_context", self.longest_context,
          FieldRule{.doc = "longest length to evaluate; only longer documents are held out",
                    .min = 2,
                    .max = 1e9});
    visit("max_shared", self.max_shared,
          FieldRule{.doc = "training files that share more than this of their 50-byte strings with "
                           "held-out files are dropped; 1: none",
                    .min = 0,
                    .max = 1});
    visit("keep_tables", self.keep_tables,
          FieldRule{.doc = "keep files most of whose lines are rows of numbers"});
    visit("max_megabytes", self.max_megabytes,
          FieldRule{.doc = "more than this is refused, not loaded", .min = 1, .max = 1e6});
  }
  bool operator==(const CorpusFiles&) const = default;
};

// The field `scored`, of tasks whose rows are windows.
inline constexpr FieldRule kScoredRule{
    .doc =
        "bytes of a row that axis longer scores, its last ones; at most half the "
        "training length",
    .min = 1,
    .max = 1e6};

// All bytes in one piece, and the files in the order of their names.
struct LoadedFiles {
  std::vector<std::uint8_t> storage;
  std::vector<Document> documents;  // into storage
};

// An Error is signed `scope`. Links are not followed, and empty files are skipped.
LoadedFiles load_files(const CorpusFiles& files, std::string_view scope);

// Where `posenc data NAME` puts a corpus: $POSENC_DATA/NAME, else NAME in posenc's folder of the
// user's data ($XDG_DATA_HOME/posenc or ~/.local/share/posenc).
std::string corpus_folder(std::string_view name);
// A folder that a config names by its path or, where there is no such path, as a corpus.
std::string path_or_corpus(const std::string& given);

}  // namespace posenc::tasks
