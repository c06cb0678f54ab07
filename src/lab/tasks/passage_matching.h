// Long-text matching, for encoders: are two passages from the same document?
//
//   <cls> passage A <sep> passage B        scored at <cls>: yes or no
//
// Both passages have (length - 2) / 2 bytes. With probability one half the second one is from the same
// document, before or behind the first without touching it, else from another document. Training draws
// the first document uniformly among those with room for two passages; an evaluation takes the documents
// of its split in turn, the same ones with the same answers at every length.
//
//   train    at the length that is asked for
//   longer   the same; named apart so that a table can say it
//
// After Su et al. 2021 (RoFormer), arXiv 2104.09864, section 4.5, at 512 and 1,024 positions.
#pragma once

#include "tasks/corpus_files.h"
#include "tasks/traits.h"

namespace posenc::tasks {

struct PassageMatching {
  CorpusFiles files;

  static constexpr TaskTraits kTraits{.name = "passage_matching",
                                      .doc = "whether two passages are from the same document",
                                      .paper = "after Su et al. 2021, arXiv 2104.09864"};

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    CorpusFiles::visit_fields(self.files, visit);
  }
  bool operator==(const PassageMatching&) const = default;
};

std::unique_ptr<Task> make(const PassageMatching& config);

}  // namespace posenc::tasks
