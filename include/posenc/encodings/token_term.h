// Terms per token: a_i + b_j is added to the score, computed from an input with one number per token.
//
//   running:  s_ij += c_i - c_j,   c_t = factor SUM_{u <= t} x_u      tokens in the order of their sequence
//   else:     s_ij += factor x_j
//   both_sides:  running for keys up to the query; for those after it s_ij += c_{j-1} - c_{i-1}
//
// Such an encoding declares its input x with token_inputs() and has a member token_form. Masked tokens (key_mask) add
// nothing to c. Only the order of the tokens matters, not user-given positions. c is kept in float64, because it is large
// while the differences c_i - c_j are small.
#pragma once

#include <concepts>
#include <span>

#include "posenc/encodings/common.h"

namespace posenc {

struct TokenForm {
  double factor = 1.0;
  bool running = true;
  bool both_sides = false;
};

template <class E>
concept TokenTerm = requires(const E& config) {
  // The argument is the scale of the scores.
  { config.token_form(1.0) } -> std::same_as<TokenForm>;
};

// c of one sequence, for queries and for keys: the term is at_query[i] - at_key[j].
struct TokenSums {
  std::vector<double> at_query;
  std::vector<double> at_key;  // NaN if x is not finite: only rows that attend to this key are NaN
};
// `real` is empty, or 0 for masked tokens.
TokenSums token_sums(const TokenForm& form, std::span<const double> x,
                     std::span<const std::uint8_t> real);
// Adds to dx the gradient that follows from dsums, the gradient of at_query plus that of at_key. The part of at_query
// vanishes if the score gradients of a row sum to zero, as in float64; kernels with rounded outputs add both parts.
void token_sums_backward(const TokenForm& form, std::span<const double> dsums,
                         std::span<const std::uint8_t> real, std::span<double> dx);

}  // namespace posenc

// SPDX-License-Identifier: MIT
