// Word problem of a group: the product of the elements so far.
//
//   <bos> 213 231 132            running: 213 321 231, one after every element
//   <bos> 213 231 132 <query>    final: 231, at <query>
//
// Elements are permutations, uniform and independent, written as the images of 1, 2, 3, ... The first
// one is applied first: after g1 .. gt, i is at gt(... g1(i)).
//
//   train    any length          longer    the same; named apart so that a table can say it
//
// S3 is solvable; S5 and A5 are not, and no constant number of layers solves them at every length
// unless TC0 = NC1. Liu et al. 2022, arXiv 2210.10749; Merrill et al. 2024, arXiv 2404.08819.
#pragma once

#include "tasks/traits.h"

namespace posenc::tasks {

struct WordProblem {
  enum class Group { kS3, kS5, kA5 };

  Group group = Group::kS5;
  Answer answer = Answer::kRunning;

  static constexpr TaskTraits kTraits{.name = "word_problem",
                                      .doc = "the product of permutations",
                                      .paper = "Merrill et al. 2024, arXiv 2404.08819"};

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("group", self.group, FieldRule{.doc = "6, 120 or 60 permutations"});
    visit("answer", self.answer, FieldRule{.doc = "asked at the end, or after every element"});
  }
  bool operator==(const WordProblem&) const = default;
};
constexpr std::array<std::string_view, 3> enum_names(WordProblem::Group /*tag*/) {
  return {"s3", "s5", "a5"};
}

std::unique_ptr<Task> make(const WordProblem& config);

}  // namespace posenc::tasks
