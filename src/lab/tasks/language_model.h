// Language modelling: the next byte of text or of code.
//
//   T h e _ w h a l e      scored: h e _ w h a l e ...
//
//   train    windows of the length, scored at every position: bits by position
//   longer   blocks of `scored` bytes, the same at every length: what a longer context changes
//
// Perplexity per byte is 2^bits_per_byte.
//
// With `tokens`, the next token of token files that `posenc data tokens` wrote, in bits per token. The
// documents of a split follow one another, each with an end-of-document token behind it, and a training row
// is a block of that stream: in each epoch every block once, in an order that the seed draws, from a start
// that it draws, too. packing: masked keeps attention and targets within documents.
#pragma once

#include "tasks/corpus_files.h"
#include "tasks/traits.h"

namespace posenc::tasks {

// What a row of several documents looks like to the model.
enum class Packing {
  kMasked,  // attention and positions begin again with each document; its first token is not asked for
  kOpen,  // one text
};
constexpr std::array<std::string_view, 2> enum_names(Packing /*tag*/) { return {"masked", "open"}; }

struct LanguageModel {
  CorpusFiles files;
  std::int64_t scored = 64;
  std::string tokens;
  Packing packing = Packing::kMasked;

  static constexpr TaskTraits kTraits{
      .name = "language_model", .doc = "the next byte or token of text or code", .paper = ""};

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    CorpusFiles::visit_fields(self.files, visit);
    visit("scored", self.scored, kScoredRule);
    visit(
        "tokens", self.tokens,
        FieldRule{.doc = "folder of token files (posenc data tokens), instead of path and corpus"});
    visit(
        "packing", self.packing,
        FieldRule{.doc = "documents in one row of token files: masked from one another, or open"});
  }
  bool operator==(const LanguageModel&) const = default;
};

std::unique_ptr<Task> make(const LanguageModel& config);

// Whether rows hold several documents that attention must keep apart.
inline bool masks_documents(const LanguageModel& config) {
  return !config.tokens.empty() && config.packing == Packing::kMasked;
}

}  // namespace posenc::tasks
