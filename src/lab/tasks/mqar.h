// Multi-query associative recall: pairs of key and value first, then some keys again.
//
//   k3 v7 k1 v2 . k1 . . . k3 . .        scored where a key of the pairs is asked for: v2, then v7
//
// N different keys with N different values. The rest of the row has slots of two positions; the i-th
// key is asked for at the slot with gap g drawn without replacement with weight g^(power - 1), so
// that near slots are common and far ones happen. All other places hold random tokens of the
// vocabulary, or blanks. The value is not written after its query.
//
//   train    pairs as configured
//   longer   the same pairs, a longer row
//   more     pairs grow with the length
//
// Arora et al. 2023 ("Zoology"), arXiv 2312.04927.
#pragma once

#include "tasks/traits.h"

namespace posenc::tasks {

struct Mqar {
  std::int64_t pairs = 8;
  std::int64_t vocabulary = 8192;
  double power = 0.01;
  bool random_fillers = true;

  static constexpr TaskTraits kTraits{.name = "mqar",
                                      .doc = "the value that was given with a key, for many keys",
                                      .paper = "Arora et al. 2023, arXiv 2312.04927"};

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("pairs", self.pairs, FieldRule{.doc = "keys with values", .min = 1, .max = 1e6});
    visit("vocabulary", self.vocabulary,
          FieldRule{
              .doc = "keys and values together, half each", .min = 4, .max = 1e7, .even = true});
    visit("power", self.power,
          FieldRule{
              .doc = "exponent of the gaps' distribution", .min = 0, .max = 1, .open_min = true});
    visit("random_fillers", self.random_fillers,
          FieldRule{.doc = "random tokens between the queries instead of blanks"});
  }
  bool operator==(const Mqar&) const = default;
};

std::unique_ptr<Task> make(const Mqar& config);

}  // namespace posenc::tasks
