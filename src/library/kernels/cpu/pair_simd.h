// Inner loops of the terms of pairs (pair_terms.h): a block of queries against a range of keys. Values and their
// gradients are [keys][kQueryBlock], a lane per query.
#pragma once

#include <array>

#include "kernels/cpu/attention_simd.h"

namespace posenc::cpu {

// Of a block of queries: the place of its first, how many it has, and the keys that it may see.
struct PairRange {
  std::int64_t place = 0;
  std::size_t count = 0;
  std::size_t first_key = 0;
  std::size_t end_key = 0;
};

// GrapeAp in one head of one sequence. Rows are whole vectors, zero past the rank.
struct PathProblem {
  std::size_t rank = 0;
  Rows p;  // of every token
  Rows e;
  const float* lost_p = nullptr;  // of every token: 0, or NaN where its row is not finite
  const float* lost_e = nullptr;
  const std::uint8_t* key_mask = nullptr;
  std::int64_t own = 0;  // distance of the nearest step: 1 where no query passes its own token
  std::int64_t window_left = 0;  // distance of the farthest
  float factor = 1.0f;           // of the products
  float slope = 0.0f;
};
void add_path_sums(const PathProblem& problem, const PairRange& range, float* values);
// Adds to the gradients of p and e, rows as those of the problem; returns that of the slope.
double path_gradients(const PathProblem& problem, const PairRange& range, const float* dvalues,
                      float* dp, float* de);

// RelativeQuery of keys, in one head of one sequence: `first` is the distance of the table's first column. At distances
// below `lowest` or above `highest` all entries are the same: there the product with a key is known.
struct KeyProblem {
  std::size_t dim = 0;
  std::size_t padded_dim = 0;
  Rows keys;
  const float* table = nullptr;       // [dim][columns]
  const float* transposed = nullptr;  // [columns][padded_dim]
  std::size_t columns = 0;
  bool finite = true;  // the whole table
  std::int64_t first = 0;
  std::int64_t lowest = 0;
  std::int64_t highest = 0;
  const float* below = nullptr;  // products with the entry below `lowest`; null where it has none
  const float* above = nullptr;

  // The columns that the kernel may read before `lowest` and past `highest`.
  static constexpr std::int64_t kBefore = kQueryBlock;
  static constexpr std::int64_t kPast = kQueryBlock + 16;
};
void add_key_products(const KeyProblem& problem, const PairRange& range, float* values);
// Adds to the gradients of keys, [keys][padded_dim], and of the table, [columns][padded_dim].
void key_gradients(const KeyProblem& problem, const PairRange& range, const float* dvalues,
                   float* dkeys, float* dtable);

// A token term of both sides: sums over the tokens up to each, and those of keys, NaN where a token is not finite.
struct TwoSidedProblem {
  const double* sums = nullptr;
  const double* keys = nullptr;
};
void add_two_sided(const TwoSidedProblem& problem, const PairRange& range, float* values);
void two_sided_gradients(const PairRange& range, const float* dvalues, double* dsums);

// Relative2d in one head. Coordinates are relative to some token of the call.
struct PlaneProblem {
  const std::int32_t* query_y = nullptr;  // [kQueryBlock]
  const std::int32_t* query_x = nullptr;
  std::int32_t height = 1;
  std::int32_t width = 1;
  bool separable = false;
};
using PlaneEntries = std::array<std::int32_t, kQueryBlock>;
// Indices into the table of a head, or into its rows and columns, for the queries and one key.
void plane_entries(const PlaneProblem& problem, std::int32_t key_y, std::int32_t key_x,
                   PlaneEntries& first, PlaneEntries& second);
// values[r] += table[entries[r]].
void add_entries(const float* table, const PlaneEntries& entries, float* values);

}  // namespace posenc::cpu
