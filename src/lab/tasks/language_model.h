// Language modelling: the next byte of text or of code.
//
//   T h e _ w h a l e      scored: h e _ w h a l e ...
//
//   train    windows of the length, scored at every position: bits by position
//   longer   blocks of `scored` bytes, the same at every length: what a longer context changes
//
// Perplexity per byte is 2^bits_per_byte.
#pragma once

#include "tasks/corpus_files.h"
#include "tasks/traits.h"

namespace posenc::tasks {

struct LanguageModel {
  CorpusFiles files;
  std::int64_t scored = 64;

  static constexpr TaskTraits kTraits{
      .name = "language_model", .doc = "the next byte of text or code", .paper = ""};

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    CorpusFiles::visit_fields(self.files, visit);
    visit("scored", self.scored, kScoredRule);
  }
  bool operator==(const LanguageModel&) const = default;
};

std::unique_ptr<Task> make(const LanguageModel& config);

}  // namespace posenc::tasks
