// Passkey retrieval: a named number hidden in idle text, asked for at the end.
//
//   f0 f1 <key> c 4 0 7 <end> f2 f3 ... <query> c 4 0        scored from the last c on: 4, 0, 7
//
// The idle text repeats one phrase (or is random words). Distractors are keys of other names at places
// of their own. The depth of the key is the share of the idle text before it: uniform in [0, 1], or the
// condition's. A row is right when every digit is.
//
//   train    any length          longer    the same; named apart so that a table can say it
//
// Mohtashami and Jaggi 2023 ("Landmark attention"), arXiv 2305.16300; several keys as in the multi-key
// tasks of Hsieh et al. 2024 ("RULER"), arXiv 2404.06654.
#pragma once

#include "tasks/traits.h"

namespace posenc::tasks {

struct Passkey {
  enum class Filler { kPhrase, kRandom };

  std::int64_t digits = 5;
  std::int64_t distractors = 0;
  Filler filler = Filler::kPhrase;
  std::int64_t words = 24;

  static constexpr TaskTraits kTraits{.name = "passkey",
                                      .doc = "a number that was hidden in idle text",
                                      .paper = "Mohtashami and Jaggi 2023, arXiv 2305.16300"};

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("digits", self.digits, FieldRule{.doc = "digits of the key", .min = 1, .max = 64});
    visit("distractors", self.distractors,
          FieldRule{.doc = "other keys with other names", .min = 0, .max = 25});
    visit("filler", self.filler,
          FieldRule{.doc = "idle text: one phrase over and over, or random words"});
    visit(
        "words", self.words,
        FieldRule{.doc = "words of the phrase, or different random words", .min = 1, .max = 10000});
  }
  bool operator==(const Passkey&) const = default;
};
constexpr std::array<std::string_view, 2> enum_names(Passkey::Filler /*tag*/) {
  return {"phrase", "random"};
}

std::unique_ptr<Task> make(const Passkey& config);

}  // namespace posenc::tasks
