#include "posenc/encodings/token_term.h"

#include <cmath>
#include <limits>

namespace posenc {

TokenSums token_sums(const TokenForm& form, std::span<const double> x,
                     std::span<const std::uint8_t> real) {
  TokenSums sums;
  sums.at_query.reserve(x.size());
  sums.at_key.reserve(x.size());
  double sum = 0.0;
  for (std::size_t t = 0; t < x.size(); ++t) {
    const bool hidden = !real.empty() && real[t] == 0;
    const bool finite = hidden || std::isfinite(x[t]);
    const double term = hidden || !finite ? 0.0 : form.factor * x[t];
    sum = form.running ? sum + term : -term;
    sums.at_query.push_back(form.running ? sum : 0.0);
    sums.at_key.push_back(finite ? sum : std::numeric_limits<double>::quiet_NaN());
  }
  return sums;
}

void token_sums_backward(const TokenForm& form, std::span<const double> dsums,
                         std::span<const std::uint8_t> real, std::span<double> dx) {
  double sum = 0.0;
  for (std::size_t t = dsums.size(); t-- > 0;) {
    sum = form.running ? sum + dsums[t] : -dsums[t];
    if (real.empty() || real[t] != 0) dx[t] += form.factor * sum;
  }
}

}  // namespace posenc
