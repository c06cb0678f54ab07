// Terms per token: the part of a score is c_i - c_j, with c a running sum of an input over the tokens.
//
//   s_ij += c_i - c_j,   c_t = factor SUM_{u <= t} x_u      tokens in the order of their sequence
//
// An encoding that is one declares its input x with token_inputs(), one number per token, and has a member
// token_factor. Tokens that key_mask hides add nothing to c. Positions that a caller gives do not matter: only the
// order of the tokens does. c is a sum of many tokens and its differences are not: it is kept in float64.
#pragma once

#include <concepts>
#include <span>

#include "posenc/encodings/common.h"

namespace posenc {

template <class E>
concept TokenTerm = requires(const E& config) {
  // What the sums are multiplied by; `scale` is that of the scores.
  { config.token_factor(1.0) } -> std::same_as<double>;
};

// c of one sequence, as queries and as keys read it.
struct TokenSums {
  std::vector<double> at_query;
  std::vector<double> at_key;  // NaN where x is not finite: only rows that see this key are NaN
};
// `real` is empty, or 0 for hidden tokens.
TokenSums token_sums(double factor, std::span<const double> x, std::span<const std::uint8_t> real);
// Adds to dx what the gradient at c asks for: dx_t += factor SUM_{u >= t} dsums_u.
void token_sums_backward(double factor, std::span<const double> dsums,
                         std::span<const std::uint8_t> real, std::span<double> dx);

}  // namespace posenc
