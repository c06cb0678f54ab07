// Selective counting: how many of the tokens so far belong to the named classes?
//
//   <bos> count A and C <sep> A B C C A D <query>      final: the answer, 4, is asked for at <query>
//   <bos> count A and C <sep> A B C C A D              running: 1 1 2 3 4 4, one after every token
//
// No label is in the input, unless `leak` asks for the mistake of the published reproduction: the answer
// then stands at the scored position itself, after <query>. A raw count that may not grow any more (cap in
// training, max_label everywhere) stays where it is because counted tokens are no longer drawn: a label is
// always the true count. `mixed` asks half of the rows for the count ("count") and half for the count
// modulo m ("mod"): one model that all axes can be asked of.
//
//   train    density and cap as configured
//   longer   density divided by the factor of length, the same cap: labels in the trained range
//   more     density as trained: more counted items, labelled modulo m (labels modulo or mixed)
//   beyond   density as trained, no cap: raw labels past the trained ones (labels raw or mixed)
//
// After the "hard mode" of a reproduction of CoPE against RoPE, with its scoring put right.
#pragma once

#include "tasks/traits.h"

namespace posenc::tasks {

struct SelectiveCounting {
  enum class Labels { kRaw, kModulo, kMixed };
  enum class Share { kCounted, kObjects };

  Answer answer = Answer::kRunning;
  Labels labels = Labels::kRaw;
  std::int64_t modulo = 10;
  std::int64_t classes = 6;
  std::int64_t min_named = 2;
  std::int64_t max_named = 2;
  std::int64_t noise = 0;
  Share share = Share::kCounted;
  double density = 0.2;
  double density_max = 0.0;
  std::int64_t cap = 8;
  std::int64_t max_label = 127;
  bool leak = false;

  static constexpr TaskTraits kTraits{
      .name = "selective_counting",
      .doc = "how many tokens belong to the classes that the instruction names",
      .paper = "after the reproduction of Golovneva et al. 2024, arXiv 2405.18719"};

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("answer", self.answer, FieldRule{.doc = "asked at the end, or after every token"});
    visit("labels", self.labels,
          FieldRule{.doc = "the count, the count modulo m, or either by the row's instruction"});
    visit("modulo", self.modulo, FieldRule{.doc = "m", .min = 2, .max = 10000});
    visit("classes", self.classes,
          FieldRule{.doc = "classes that can be named", .min = 1, .max = 10000});
    visit("min_named", self.min_named, FieldRule{.doc = "fewest named", .min = 1, .max = 3});
    visit("max_named", self.max_named, FieldRule{.doc = "most named", .min = 1, .max = 3});
    visit("noise", self.noise,
          FieldRule{.doc = "symbols that belong to no class", .min = 0, .max = 1e6});
    visit("share", self.share,
          FieldRule{.doc = "what density is the share of: counted tokens, or tokens of any class"});
    visit("density", self.density,
          FieldRule{.doc = "share of the content", .min = 0, .max = 1, .open_min = true});
    visit("density_max", self.density_max,
          FieldRule{.doc = "above 0: each row draws its density, log-uniform up to this",
                    .min = 0,
                    .max = 1});
    visit("cap", self.cap,
          FieldRule{.doc = "largest raw count in training; 0: no cap", .min = 0, .max = 1e6});
    visit("max_label", self.max_label,
          FieldRule{.doc = "largest raw label in the vocabulary", .min = 1, .max = 1e6});
    visit("leak", self.leak,
          FieldRule{
              .doc = "writes the answer into the input where it is scored, a published mistake"});
  }
  bool operator==(const SelectiveCounting&) const = default;
};
constexpr std::array<std::string_view, 3> enum_names(SelectiveCounting::Labels /*tag*/) {
  return {"raw", "modulo", "mixed"};
}
constexpr std::array<std::string_view, 2> enum_names(SelectiveCounting::Share /*tag*/) {
  return {"counted", "objects"};
}

std::unique_ptr<Task> make(const SelectiveCounting& config);

}  // namespace posenc::tasks
