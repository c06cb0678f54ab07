#include "kernels/decode_row.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "posenc/encodings/encoding.h"

namespace posenc::decode {

bool sees_any(const cpu::HeadProblem& p, std::int64_t place, std::int64_t first, std::int64_t end) {
  for (std::int64_t m = first; m < end; ++m) {
    if (p.sees(place, m)) return true;
  }
  return false;
}

float fire_bias(const cpu::HeadProblem& p, std::int64_t place, std::int64_t key) {
  const float u = p.fire.psi[place - key] * p.fire.row_scale[place];
  const float* above = std::upper_bound(p.fire.bounds + 1, p.fire.bounds + p.fire.segments, u);
  const auto s = static_cast<std::size_t>(above - p.fire.bounds - 1);
  return p.fire.slopes[s] * u + p.fire.intercepts[s];
}

void add_fire(const cpu::HeadProblem& p, std::int64_t place, std::int64_t first, std::int64_t end,
              float* scores) {
  for (std::int64_t m = first; m < end; ++m) scores[m] += fire_bias(p, place, m);
}

void fill_positions(const cpu::HeadProblem& p, const float* q, AlignedFloats& table) {
  if (p.cope.shared != nullptr) {
    std::copy_n(p.cope.shared, p.cope.stride, table.begin());
  } else {
    std::fill(table.begin(), table.end(), 0.0f);
    for (std::size_t c = 0; c < p.dim; ++c) {
      for (std::size_t n = 0; n < p.cope.npos; ++n)
        table[n] += q[c] * p.cope.embedding[c * p.cope.stride + n];
    }
  }
  table[p.cope.npos] = table[p.cope.npos - 1];
}

void add_positions(const cpu::HeadProblem& p, const float* gates, const AlignedFloats& table,
                   std::int64_t first, std::int64_t end, float* scores) {
  const auto last = static_cast<double>(p.cope.npos - 1);
  double sum = 0.0;
  for (std::int64_t m = end; m-- > first;) {
    sum += static_cast<double>(gates[m]);
    if (std::isnan(sum)) {  // it must not be an index, and no key after it has a position
      scores[m] = std::numeric_limits<float>::quiet_NaN();
      continue;
    }
    const double position = std::min(sum, last);
    const auto f = static_cast<std::size_t>(position);
    const auto fraction = static_cast<float>(position - static_cast<double>(f));
    scores[m] += table[f] + fraction * (table[f + 1] - table[f]);
  }
}

void add_relative(const cpu::HeadProblem& p, const float* u, std::int64_t place, std::int64_t first,
                  std::int64_t end, AlignedFloats& products, float* scores) {
  const cpu::RelativeProblem& relative = p.relative;
  std::fill(products.begin(), products.end(), 0.0f);
  for (std::size_t c = 0; c < relative.channels; ++c) {
    for (std::size_t n = 0; n < relative.entries(); ++n) {
      products[n] += u[c] * relative.table[c * relative.stride + n];
    }
  }
  for (std::int64_t m = first; m < end; ++m) {
    const std::int64_t near = std::clamp(place - m, relative.lowest, relative.highest);
    if (near == place - m || relative.clips) scores[m] += products[near - relative.lowest];
  }
}

cpu::SoftmaxRow break_stick(const cpu::HeadProblem& p, std::int64_t place, std::int64_t first,
                            std::int64_t end, float* scores) {
  const bool blind = !sees_any(p, place, first, end);
  double left = 0.0;
  std::fill(scores, scores + first, 0.0f);
  std::fill(scores + end, scores + p.keys, 0.0f);
  for (std::int64_t m = end; m-- > first;) {
    if (!p.sees(place, m)) {
      scores[m] = 0.0f;
      continue;
    }
    const auto score = static_cast<double>(scores[m]);
    scores[m] = static_cast<float>(std::exp(left - softplus(-score)));
    left -= softplus(score);
  }
  constexpr auto kLowest = static_cast<double>(std::numeric_limits<float>::lowest());
  return {static_cast<float>(left < kLowest ? kLowest : left), blind ? 0.0f : 1.0f};
}

void drop(const cpu::HeadProblem& p, std::int64_t query, std::int64_t first, std::int64_t end,
          float* weights) {
  for (std::int64_t m = first; m < end; ++m) {
    weights[m] *= static_cast<float>(
        dropout_factor(p.dropout, p.batch, p.head, p.first_query + query, p.first_key + m));
  }
}

}  // namespace posenc::decode
