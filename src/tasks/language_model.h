// Language modelling: the next byte of text or of code.
//
//   T h e _ w h a l e      scored everywhere: h e _ w h a l e ...
//
//   train     windows at random places of the files
//   windows   every file cut into windows side by side; each byte but a file's first is said once
//   sliding   windows that move on by stride bytes, scored at their last stride positions: every
//             answer has at least length - stride bytes before it
//
// The last window of a file may be short: it is filled up with <pad>, unscored. Axes windows and
// sliding end; train does not. Perplexity per byte is 2^bits_per_byte.
#pragma once

#include "tasks/corpus.h"
#include "tasks/traits.h"

namespace posenc::tasks {

struct LanguageModel {
  CorpusFiles files;
  std::int64_t stride = 128;

  static constexpr TaskTraits kTraits{
      .name = "language_model", .doc = "the next byte of text or code", .paper = ""};

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    CorpusFiles::visit_fields(self.files, visit);
    visit("stride", self.stride,
          FieldRule{.doc = "new bytes per window of axis sliding (at most its length)",
                    .min = 1,
                    .max = 1e9});
  }
  bool operator==(const LanguageModel&) const = default;
};

std::unique_ptr<Task> make(const LanguageModel& config);

}  // namespace posenc::tasks
