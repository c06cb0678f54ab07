// Navigation: what stands at a place that the walk comes back to.
//
//   > C > . < C > . > A < .        1D: scored at the first <, which comes back to the first place: C
//
// A walk on a ring (dimensions: 1; < and >) or on a torus (2; also ^ and v) of `grid` places a side. An
// action is followed by what stands at the new place: an object, or nothing (.) with probability
// `empty`. A direction is kept for 1 to max_run steps. Scored at an action that leads to a place with an
// object which was seen before: objects only, since "nothing" would be the safe answer everywhere. A row
// in which nothing is scored is drawn again.
//
//   train    grid, empty
//   dense    dense_grid, dense_empty; natural length: half of the training length
//   sparse   sparse_grid, sparse_empty; natural length: twice the training length
//   longer   as train, a longer row
//
// Rambaud et al. 2025 ("MapFormer"), arXiv 2511.19279: 128 steps, so 256 positions.
#pragma once

#include "tasks/traits.h"

namespace posenc::tasks {

struct Navigation {
  std::int64_t dimensions = 2;
  std::int64_t objects = 16;
  std::int64_t max_run = 10;
  std::int64_t grid = 64;
  double empty = 0.5;
  std::int64_t dense_grid = 32;
  double dense_empty = 0.2;
  std::int64_t sparse_grid = 128;
  double sparse_empty = 0.8;

  static constexpr TaskTraits kTraits{.name = "navigation",
                                      .doc = "the object at a place that a walk comes back to",
                                      .paper = "Rambaud et al. 2025, arXiv 2511.19279"};

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    const auto side = [](const char* doc) { return FieldRule{.doc = doc, .min = 3, .max = 1024}; };
    const auto share = [](const char* doc) { return FieldRule{.doc = doc, .min = 0, .max = 0.99}; };
    visit("dimensions", self.dimensions,
          FieldRule{.doc = "1: a ring, 2: a torus", .min = 1, .max = 2});
    visit("objects", self.objects, FieldRule{.doc = "different objects", .min = 2, .max = 10000});
    visit("max_run", self.max_run,
          FieldRule{.doc = "most steps in one direction", .min = 1, .max = 1000});
    visit("grid", self.grid, side("places along a side, in training"));
    visit("empty", self.empty, share("share of places without an object, in training"));
    visit("dense_grid", self.dense_grid, side("places along a side on axis dense"));
    visit("dense_empty", self.dense_empty, share("share of empty places on axis dense"));
    visit("sparse_grid", self.sparse_grid, side("places along a side on axis sparse"));
    visit("sparse_empty", self.sparse_empty, share("share of empty places on axis sparse"));
  }
  bool operator==(const Navigation&) const = default;
};

std::unique_ptr<Task> make(const Navigation& config);

}  // namespace posenc::tasks
