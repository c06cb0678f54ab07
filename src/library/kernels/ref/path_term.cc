#include "kernels/ref/path_term.h"

#include <cmath>

#include "kernels/ref/vectors.h"
#include "posenc/encodings/stick_breaking.h"

namespace posenc::ref {

void fill_path_sums(PathTerm& term) {
  const std::size_t keys = term.passed.size();
  const auto rank = static_cast<std::int64_t>(term.p.size());
  term.steps.assign(keys, 0.0);
  term.sums.assign(keys, 0.0);
  double sum = 0.0;
  for (std::size_t j = keys; j-- > 0 && !term.p.empty();) {
    term.sums[j] = sum;
    if (!term.passed[j]) continue;
    const auto step = vector_at(term.e, static_cast<std::int64_t>(j), rank);
    term.steps[j] = term.factor * dot(term.p, step);
    sum -= softplus(-term.steps[j]);
  }
}

void path_sums_backward(const PathTerm& term, std::span<const double> dscore, PathGradients to) {
  const auto rank = static_cast<std::int64_t>(term.p.size());
  double before = 0.0;  // SUM of the gradients of the keys that the step is on the path of
  for (std::size_t j = 0; j < dscore.size() && !term.p.empty(); ++j) {
    if (term.passed[j] && before != 0.0) {
      const auto key = static_cast<std::int64_t>(j);
      const double dstep = term.factor * term.slope * before * std::exp(-softplus(term.steps[j]));
      add_scaled(dstep, vector_at(term.e, key, rank), to.p);
      add_scaled(dstep, term.p, vector_at(to.e, key, rank));
    }
    if (dscore[j] == 0.0) continue;  // a sum that is not read may be NaN
    to.slope += dscore[j] * term.sums[j];
    before += dscore[j];
  }
}

}  // namespace posenc::ref
