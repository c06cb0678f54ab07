// Counting program: the value of a variable after assignments, increments and idle steps.
//
//   a = 0 ; pass; a ++; b = 0 ; pass; a ++; print a        scored at the last a: 2
//
// `pass;` is one token, `a ++;` two, `a = 0 ;` four, `print a` two. Operations are drawn by weight: set
// a variable (chosen uniformly) to 0, increment one of the variables that are set (chosen uniformly),
// or pass. Where the chosen variable is at max_value, or none is set, the operation is drawn again.
// Then one of the set variables is printed. The number of operations is uniform in [min_operations,
// max_operations]; a program without any set is drawn again, with a new number of operations.
//
//   train    pass_weight        dense    dense_pass_weight        sparse    sparse_pass_weight
//
// A program longer than the row loses its left end, so that an answer may depend on what was lost, as
// in the paper; with overflow: stop, a program ends where the row does, and every answer is
// determined. Shorter programs are padded at the right. Golovneva et al. 2024, arXiv 2405.18719.
#pragma once

#include "tasks/traits.h"

namespace posenc::tasks {

struct CountingProgram {
  enum class Overflow { kCutLeft, kStop };

  std::int64_t variables = 1;
  double set_weight = 1.0;
  double increment_weight = 7.0;
  double pass_weight = 50.0;
  double dense_pass_weight = 10.0;
  double sparse_pass_weight = 100.0;
  std::int64_t min_operations = 3;
  std::int64_t max_operations = 512;
  std::int64_t max_value = 10;
  Overflow overflow = Overflow::kCutLeft;

  static constexpr TaskTraits kTraits{
      .name = "counting_program",
      .doc = "the value of a variable after assignments, increments and idle steps",
      .paper = "Golovneva et al. 2024, arXiv 2405.18719"};

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("variables", self.variables, FieldRule{.doc = "variables", .min = 1, .max = 26});
    visit("set_weight", self.set_weight,
          FieldRule{.doc = "weight of v = 0 ;", .min = 1e-6, .max = 1e6});
    visit("increment_weight", self.increment_weight,
          FieldRule{.doc = "weight of v ++;", .min = 0, .max = 1e6});
    visit("pass_weight", self.pass_weight,
          FieldRule{.doc = "weight of pass; in training", .min = 0, .max = 1e6});
    visit("dense_pass_weight", self.dense_pass_weight,
          FieldRule{.doc = "weight of pass; on axis dense", .min = 0, .max = 1e6});
    visit("sparse_pass_weight", self.sparse_pass_weight,
          FieldRule{.doc = "weight of pass; on axis sparse", .min = 0, .max = 1e6});
    visit("min_operations", self.min_operations,
          FieldRule{.doc = "fewest operations", .min = 1, .max = 1e6});
    visit("max_operations", self.max_operations,
          FieldRule{.doc = "most operations", .min = 1, .max = 1e6});
    visit("max_value", self.max_value,
          FieldRule{.doc = "a variable is not incremented past it", .min = 1, .max = 10000});
    visit("overflow", self.overflow,
          FieldRule{.doc = "programs longer than the row lose their left end, or stop early"});
  }
  bool operator==(const CountingProgram&) const = default;
};
constexpr std::array<std::string_view, 2> enum_names(CountingProgram::Overflow /*tag*/) {
  return {"cut_left", "stop"};
}

std::unique_ptr<Task> make(const CountingProgram& config);

}  // namespace posenc::tasks
