// Masked language modelling, for encoders: bytes that were masked out, from both sides.
//
//   T h <mask> _ w h q l e        scored at the chosen places alone: e at 2, a at 6
//
// Each byte is chosen with probability mask; of the chosen ones, most are replaced by <mask>, some
// (random) by a uniform byte, and the rest left as they are. What is left as it is stands in the
// input: that is the protocol, and why its share is small.
//
//   train    windows of the length, scored at every chosen place
//   longer   blocks of `scored` bytes, the same at every length, at the end of the row; what is chosen
//            of them and of the context that two lengths share is the same, too
//
// Devlin et al. 2018, arXiv 1810.04805: 15 %, of which 80 / 10 / 10.
#pragma once

#include "tasks/corpus_files.h"
#include "tasks/traits.h"

namespace posenc::tasks {

struct MaskedLanguageModel {
  CorpusFiles files;
  std::int64_t scored = 64;
  double mask = 0.15;
  double random = 0.1;
  double keep = 0.1;

  static constexpr TaskTraits kTraits{.name = "masked_language_model",
                                      .doc = "bytes that were masked out, from both sides",
                                      .paper = "Devlin et al. 2018, arXiv 1810.04805"};

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    CorpusFiles::visit_fields(self.files, visit);
    visit("scored", self.scored, kScoredRule);
    visit("mask", self.mask,
          FieldRule{.doc = "share of bytes to say", .min = 0, .max = 1, .open_min = true});
    visit("random", self.random,
          FieldRule{.doc = "share of those that a random byte replaces", .min = 0, .max = 1});
    visit("keep", self.keep,
          FieldRule{.doc = "share of those that are left as they are", .min = 0, .max = 1});
  }
  bool operator==(const MaskedLanguageModel&) const = default;
};

std::unique_ptr<Task> make(const MaskedLanguageModel& config);

}  // namespace posenc::tasks
