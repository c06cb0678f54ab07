// Tasks over strings that separate architectures by the Chomsky hierarchy.
//
//   even_pairs          0 1 1 0 |         0 if the number of pairs 01 and 10 is even, else 1
//   reverse             0 1 1 | 1 1       1 1 0, from the separator on
//   duplicate           0 1 | 0 1 0       0 1 0 1
//   missing_duplicate   0 1 1 0 _ 1 |     1: the symbol that one of the two copies lacks
//   odds_first          0 1 1 0 | 0 1 1   0 1 1 0: the first, third, ... symbol, then the others
//   bucket_sort         3 0 1 | 0 1       0 1 3, of five symbols
//   stack               0 1 push1 pop |   1 0 <end>: the stack, given bottom first, after the
//                                         operations, top first; pop on an empty stack does nothing
//
// The input is followed by the separator and the answer, of which each symbol is said one step ahead.
// The size of the input is uniform in 1 .. the largest whose answer fits; what is left is <pad>.
//
//   train    any size that fits the row
//   longer   sizes that do not fit the training length
//
// Deletang et al. 2022, arXiv 2207.02098: trained on sizes up to 40, tested up to 500.
#pragma once

#include "tasks/traits.h"

namespace posenc::tasks {

struct Chomsky {
  enum class Kind {
    kEvenPairs,
    kReverse,
    kDuplicate,
    kMissingDuplicate,
    kOddsFirst,
    kBucketSort,
    kStack
  };

  Kind kind = Kind::kReverse;

  static constexpr TaskTraits kTraits{.name = "chomsky",
                                      .doc = "strings reversed, copied, sorted or checked",
                                      .paper = "Deletang et al. 2022, arXiv 2207.02098"};

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("kind", self.kind, FieldRule{.doc = "what is asked of the string"});
  }
  bool operator==(const Chomsky&) const = default;
};
constexpr std::array<std::string_view, 7> enum_names(Chomsky::Kind /*tag*/) {
  return {"even_pairs", "reverse",     "duplicate", "missing_duplicate",
          "odds_first", "bucket_sort", "stack"};
}

std::unique_ptr<Task> make(const Chomsky& config);

}  // namespace posenc::tasks
