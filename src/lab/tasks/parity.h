// Parity and modular sums, known to be hard: the sum of all digits so far, modulo m.
//
//   <bos> 1 0 1 1             running: 1 1 0 1, one after every digit
//   <bos> 1 0 1 1 <query>     final: 1, at <query>
//
// Digits are uniform in 0 .. m-1; m = 2 is parity.
//
//   train    any length          longer    the same; named apart so that a table can say it
#pragma once

#include "tasks/traits.h"

namespace posenc::tasks {

struct Parity {
  std::int64_t modulo = 2;
  Answer answer = Answer::kFinal;

  static constexpr TaskTraits kTraits{.name = "parity",
                                      .doc = "the sum of the digits modulo m",
                                      .paper = "Hahn 2020, arXiv 1906.06755"};

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("modulo", self.modulo, FieldRule{.doc = "m", .min = 2, .max = 10000});
    visit("answer", self.answer, FieldRule{.doc = "asked at the end, or after every digit"});
  }
  bool operator==(const Parity&) const = default;
};

std::unique_ptr<Task> make(const Parity& config);

}  // namespace posenc::tasks
