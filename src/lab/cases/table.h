// The case table: operation x encoding x shape x type. Tests compare every row with the reference and
// check the gradients of small ones; benchmarks time the large ones after checking a small variant of each.
#pragma once

#include "cases/case.h"

namespace posenc::cases {

// The specs, and after them each encoding of attention that none of them has, with its defaults: tests that list
// specs for their fields draw a new encoding without a line.
std::vector<std::string> with_every_encoding(std::vector<std::string> specs);
// Likewise with each bias by distance.
std::vector<std::string> with_every_distance_bias(std::vector<std::string> specs);

// Specs that between them use every encoding and path of attention's kernels.
const std::vector<std::string>& attention_specs();

// Whether values must have as many channels as queries.
bool ties_widths(const std::string& spec);
// Attention or decode steps with more and fewer channels in values than in queries, of every spec that allows it: with
// grouped heads, masks, packed sequences, dropout, half types, and caches of other types and in pages.
std::vector<Case> width_cases(Operation op);

// Every form of mask, order, position, type and odd size, for specs that between them use every
// encoding and path of the kernels.
std::vector<Case> checked_cases(Operation op);

// Small enough for central differences of the reference, one evaluation per entry.
std::vector<Case> differentiated_cases();

// What a time is compared with: OpenBLAS's sgemm, an in-place update of the same bytes, a read of them.
enum class Limit { kNone, kSgemm, kUpdate, kRead };

struct TimedCase {
  std::string name;
  Case c;
  bool with_backward = false;
  Limit limit = Limit::kNone;
  double flops = 0.0;    // of the products, on the half that a causal mask leaves
  std::string plain;     // name of the row without encodings, or of one without pages
  std::string series;    // rows of one series differ in length alone and are timed in turns
  bool baseline = true;  // whether the composition of libtorch operations fits the machine
};

std::vector<TimedCase> timed_cases();

// The same row, short enough for the reference.
Case small_twin(const Case& c);

// elu, relu and the cosine.
std::vector<LinearAttentionOptions> linear_forms();

}  // namespace posenc::cases
