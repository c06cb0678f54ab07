// Flip-Flop language: remember the last written bit through any number of ignored ones.
//
//   w 1 i 0 i 1 r 1 w 0 i 1 r 0        scored at each r: the bit that follows, here 1 and 0
//
// Pairs of instruction and bit; the first instruction is w, the last is r. Others ignore with
// probability p and write or read with (1 - p) / 2 each. The bit after r repeats the last written
// one, other bits are uniform.
//
//   train    p = train_ignore        dense    p = dense_ignore        sparse    p = sparse_ignore
//
// Liu et al. 2023, arXiv 2306.00946: T = 512.
#pragma once

#include "tasks/traits.h"

namespace posenc::tasks {

struct FlipFlop {
  double train_ignore = 0.8;
  double dense_ignore = 0.1;
  double sparse_ignore = 0.98;

  static constexpr TaskTraits kTraits{.name = "flip_flop",
                                      .doc = "the last written bit, asked for at every read",
                                      .paper = "Liu et al. 2023, arXiv 2306.00946"};

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("train_ignore", self.train_ignore,
          FieldRule{.doc = "share of ignored bits in training", .min = 0, .max = 1});
    visit("dense_ignore", self.dense_ignore,
          FieldRule{.doc = "share of ignored bits on axis dense", .min = 0, .max = 1});
    visit("sparse_ignore", self.sparse_ignore,
          FieldRule{.doc = "share of ignored bits on axis sparse", .min = 0, .max = 1});
  }
  bool operator==(const FlipFlop&) const = default;
};

std::unique_ptr<Task> make(const FlipFlop& config);

}  // namespace posenc::tasks
