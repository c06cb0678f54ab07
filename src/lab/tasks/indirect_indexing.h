// Indirect indexing: the letter at a signed distance from a given letter.
//
//   q e d k f m , k , -2 ,        scored at the last comma: e, two places to the left of k
//
// A string of random letters, in which the named letter occurs once; the distance is uniform among
// those in -max_shift .. max_shift, without 0, that stay in the string. What is left of the row is
// <pad>.
//
//   train    strings of min_letters to max_letters, as far as they fit
//   longer   strings that fill the row; the same distances
//
// Gopalakrishnan et al. 2025 ("PoPE"), arXiv 2509.10534: 20 to 40 letters of 52, distances to 15.
#pragma once

#include "tasks/traits.h"

namespace posenc::tasks {

struct IndirectIndexing {
  std::int64_t letters = 52;
  std::int64_t min_letters = 20;
  std::int64_t max_letters = 40;
  std::int64_t max_shift = 15;

  static constexpr TaskTraits kTraits{.name = "indirect_indexing",
                                      .doc = "the letter at a distance from a given letter",
                                      .paper = "Gopalakrishnan et al. 2025, arXiv 2509.10534"};

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("letters", self.letters, FieldRule{.doc = "different letters", .min = 2, .max = 52});
    visit("min_letters", self.min_letters,
          FieldRule{.doc = "letters of the shortest string", .min = 2, .max = 10000});
    visit("max_letters", self.max_letters,
          FieldRule{.doc = "letters of the longest string in training", .min = 2, .max = 10000});
    visit("max_shift", self.max_shift,
          FieldRule{.doc = "largest distance, to either side", .min = 1, .max = 10000});
  }
  bool operator==(const IndirectIndexing&) const = default;
};

std::unique_ptr<Task> make(const IndirectIndexing& config);

}  // namespace posenc::tasks
