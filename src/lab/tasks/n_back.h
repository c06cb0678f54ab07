// N-back recall: variables are assigned again and again; what was the value before last?
//
//   a 3 b 5 . . a 7 ? a b 1 a 2 ? a        back 2, scored at the variable after each ?: 3, then 7
//
// Events of two positions: an assignment of a uniform value to a uniform variable, two fillers, or
// a question about a variable that has had `back` values. The first `back` events assign one and the
// same variable, so that there is always something to ask for, and the last event is a question.
//
//   train    filler as configured
//   longer   the same; named apart so that a table can say it
//   dense    dense_filler        sparse    sparse_filler
#pragma once

#include "tasks/traits.h"

namespace posenc::tasks {

struct NBack {
  std::int64_t back = 2;
  std::int64_t variables = 4;
  std::int64_t values = 10;
  double question = 0.2;
  double filler = 0.3;
  double dense_filler = 0.0;
  double sparse_filler = 0.7;

  static constexpr TaskTraits kTraits{
      .name = "n_back",
      .doc = "the value that a variable had before its last ones",
      .paper = "the project's own; a natural task for contextual positions"};

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("back", self.back,
          FieldRule{.doc = "1: the last value, 2: the one before it", .min = 1, .max = 64});
    visit("variables", self.variables, FieldRule{.doc = "variables", .min = 1, .max = 10000});
    visit("values", self.values, FieldRule{.doc = "different values", .min = 2, .max = 10000});
    visit("question", self.question,
          FieldRule{.doc = "share of events that ask", .min = 0, .max = 1});
    visit("filler", self.filler,
          FieldRule{.doc = "share of events that say nothing, in training", .min = 0, .max = 1});
    visit("dense_filler", self.dense_filler,
          FieldRule{.doc = "the same on axis dense", .min = 0, .max = 1});
    visit("sparse_filler", self.sparse_filler,
          FieldRule{.doc = "the same on axis sparse", .min = 0, .max = 1});
  }
  bool operator==(const NBack&) const = default;
};

std::unique_ptr<Task> make(const NBack& config);

}  // namespace posenc::tasks
