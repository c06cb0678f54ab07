// Terms per token: the part of a score is a_i + b_j, made from an input with one number per token.
//
//   running:  s_ij += c_i - c_j,   c_t = factor SUM_{u <= t} x_u      tokens in the order of their sequence
//   else:     s_ij += factor x_j
//   both_sides:  running for keys up to the query; for those after it s_ij += c_{j-1} - c_{i-1}
//
// An encoding that is one declares its input x with token_inputs() and has a member token_form. Tokens that key_mask
// hides add nothing to c. Positions that a caller gives do not matter: only the order of the tokens does. c is a sum
// of many tokens and its differences are not: it is kept in float64.
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
  // `scale` is that of the scores.
  { config.token_form(1.0) } -> std::same_as<TokenForm>;
};

// c of one sequence, as queries and as keys read it: the term is at_query[i] - at_key[j].
struct TokenSums {
  std::vector<double> at_query;
  std::vector<double> at_key;  // NaN where x is not finite: only rows that see this key are NaN
};
// `real` is empty, or 0 for hidden tokens.
TokenSums token_sums(const TokenForm& form, std::span<const double> x,
                     std::span<const std::uint8_t> real);
// Adds to dx what the gradient of the sums c asks for: of at_key, and of at_query, which is zero as far as the
// gradients of a row's scores sum to zero. They do in float64; a kernel whose output is rounded adds both.
void token_sums_backward(const TokenForm& form, std::span<const double> dsums,
                         std::span<const std::uint8_t> real, std::span<double> dx);

}  // namespace posenc
