// GRAPE-AP in one query's row: the penalty of every token from a key to the query.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "posenc/encodings/grape_ap.h"

namespace posenc::ref {

struct PathTerm {
  std::size_t encoding;       // index into the spec
  double slope;               // m of the head
  double factor;              // s
  std::span<const double> p;  // of the query's own token; empty where it has none
  std::span<const double> e;  // [Tk, rank]
  std::vector<bool> passed;   // keys that the path passes
  std::vector<double> steps;  // s <p, e_t>, 0 where the path does not pass
  std::vector<double> sums;   // of ln sigmoid(steps) over the keys after each
};

// Fills `steps` and `sums` from the other members.
void fill_path_sums(PathTerm& term);

// Where gradients of a term go.
struct PathGradients {
  double& slope;
  std::span<double> p;
  std::span<double> e;
};
// Adds what the gradient at the row's scores asks for; it is 0 at keys that are not seen.
void path_sums_backward(const PathTerm& term, std::span<const double> dscore, PathGradients to);

}  // namespace posenc::ref
