// Text as documents, split into training, validation and test sets.
//
// Documents are split as wholes, by the hash of their names: no byte of a held-out document is
// trained on. Tables of numbers are left out, and so are training documents that repeat held-out text.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/corpus_files.h"
#include "tasks/near_duplicates.h"
#include "tasks/task.h"

namespace posenc::tasks {

class Corpus {
 public:
  // Finds, loads, cleans and splits. `scope` is what errors are signed with.
  Corpus(const CorpusFiles& files, std::string_view scope);
  Corpus(const Corpus&) = delete;
  Corpus& operator=(const Corpus&) = delete;
  ~Corpus() = default;

  [[nodiscard]] std::span<const Document> documents(Split split) const {
    return documents_[static_cast<std::size_t>(split)];
  }
  // SHA-256 over the names and bytes of the documents of each split.
  [[nodiscard]] std::string content_hash() const;
  // One sentence: the documents of each split, and what was left out.
  [[nodiscard]] std::string summary() const;
  [[nodiscard]] const Overlap& overlap() const { return overlap_; }

 private:
  std::vector<std::uint8_t> storage_;
  std::array<std::vector<Document>, 3> documents_;  // by Split
  std::size_t tables_ = 0;
  std::size_t too_short_ = 0;
  Overlap overlap_;
};

}  // namespace posenc::tasks
