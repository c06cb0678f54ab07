// Files as bytes: what language modelling, masking and matching read.
//
// Files are split into training and test files as wholes, by the hash of their names: a byte of a
// test file is never trained on, and a file that is added moves no other (but for the rounding of
// the share). All is loaded once, in the order of the names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "posenc/core/fields.h"

namespace posenc::tasks {

// The fields that a config over files has, side by side with its own.
struct CorpusFiles {
  std::string corpus;
  std::string path;
  std::string suffixes;
  double test_share = 0.1;
  std::int64_t min_test_bytes = 16384;
  std::int64_t max_megabytes = 1024;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("corpus", self.corpus,
          FieldRule{.doc = "a corpus that `posenc data NAME` has fetched, instead of path"});
    visit("path", self.path, FieldRule{.doc = "a file or folder; several are separated by colons"});
    visit("suffixes", self.suffixes,
          FieldRule{.doc = "endings of file names to take, such as .py,.pyi; none: all files"});
    visit("test_share", self.test_share,
          FieldRule{.doc = "share of the files that is held out", .min = 0, .max = 0.9});
    visit("min_test_bytes", self.min_test_bytes,
          FieldRule{.doc = "shorter files are never held out, so that every evaluated length sees "
                           "the same files",
                    .min = 2,
                    .max = 1e12});
    visit("max_megabytes", self.max_megabytes,
          FieldRule{.doc = "more than this is refused, not loaded", .min = 1, .max = 1e6});
  }
  bool operator==(const CorpusFiles&) const = default;
};

using Bytes = std::span<const std::uint8_t>;

struct Document {
  std::string name;  // relative to the folder that was named
  Bytes bytes;
};

class Corpus {
 public:
  // Finds, sorts, loads and splits. `scope` is what errors are signed with.
  Corpus(const CorpusFiles& files, std::string_view scope);
  Corpus(const Corpus&) = delete;
  Corpus& operator=(const Corpus&) = delete;
  ~Corpus() = default;

  [[nodiscard]] std::span<const Document> documents(bool held_out) const {
    return held_out ? test_ : train_;
  }

 private:
  std::vector<std::uint8_t> storage_;
  std::vector<Document> train_;
  std::vector<Document> test_;
};

// Where `posenc data NAME` puts a corpus: $POSENC_DATA/NAME, else NAME in posenc's folder of the
// user's data ($XDG_DATA_HOME/posenc or ~/.local/share/posenc).
std::string corpus_folder(std::string_view name);

// Documents with room for a window, and every start of a window by number.
class WindowIndex {
 public:
  WindowIndex(std::span<const Document> documents, std::int64_t window);
  [[nodiscard]] std::int64_t starts() const { return before_.back(); }
  [[nodiscard]] Bytes at(std::int64_t start) const;

 private:
  std::span<const Document> documents_;
  std::int64_t window_;
  std::vector<std::int64_t> before_;  // starts in the documents before each one, and the total
};

// The bytes that a row sees and those that it must say, of a document cut into rows.
struct Window {
  Bytes bytes;              // what fits of the window and the byte after it
  std::int64_t scored = 0;  // first position that counts
};

// A document cut into windows: `stride` new bytes a window, of which the last `stride` positions
// count; stride == length: windows side by side, all of which count.
class WindowList {
 public:
  WindowList(std::span<const Document> documents, std::int64_t length, std::int64_t stride);
  [[nodiscard]] std::int64_t size() const { return before_.back(); }
  [[nodiscard]] Window at(std::int64_t row) const;

 private:
  std::span<const Document> documents_;
  std::int64_t length_;
  std::int64_t stride_;
  std::vector<std::int64_t> before_;
};

}  // namespace posenc::tasks
