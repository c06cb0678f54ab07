// Analysis of a rotary encoding: wavelengths, decay, ambiguous distances, algebraic identities.
#pragma once

#include <optional>
#include <span>

#include "posenc/encodings/rotary.h"

namespace posenc {

// 2 pi / inv_freq[p]: positions per full rotation; infinite if the frequency is 0.
std::vector<double> wavelengths(const Rotary& rotary, std::int64_t group = 0);

// Full rotations of each pair over `length` positions: length * inv_freq[p] / (2 pi).
std::vector<double> rotations_at(const Rotary& rotary, std::int64_t length, std::int64_t group = 0);

// The largest distance before the slowest rotating pair completes a full rotation. Beyond it every
// pair has wrapped, so distances can be ambiguous. Empty if no pair rotates.
std::optional<std::int64_t> max_unambiguous_distance(const Rotary& rotary, std::int64_t group = 0);

// Long-range decay: for m = 0 .. max_distance, the mean over j = 1 .. pairs of |S_j(m)|, where
// S_j(m) = SUM_{p<j} exp(i m inv_freq[p]). By Abel summation it bounds the rotated inner product.
// Su et al. 2021, arXiv 2104.09864, section 3.4.3 and figure 2.
std::vector<double> decay_curve(const Rotary& rotary, std::int64_t max_distance,
                                std::int64_t group = 0);

// How a schedule changes a pair's frequency, compared with the default schedule at the same theta.
enum class PairRegime {
  kExtrapolates,  // same or higher frequency: longer sequences reach angles not seen in training
  kBlends,        // a lower frequency, but not reduced by the largest factor
  kInterpolates,  // reduced by the largest factor: longer sequences stay within the trained angles
  kStill          // does not rotate
};
constexpr std::array<std::string_view, 4> enum_names(PairRegime /*tag*/) {
  return {"extrapolates", "blends", "interpolates", "still"};
}
std::vector<PairRegime> pair_regimes(const Rope& config, const ModelShape& shape,
                                     const Lengths& lengths, std::int64_t group = 0);

// The largest error of each identity over random vectors and positions up to max_position.
struct LawViolations {
  double norm = 0.0;      // | |R(n)x| - a |x| | / |x|, a the attention factor
  double group = 0.0;     // | R(m)R(n)x - a R(m+n)x | / |x|
  double inverse = 0.0;   // | R(n)^T R(n) x - a^2 x | / |x|
  double relative = 0.0;  // | <R(i)x, R(j)y> - <R(i+s)x, R(j+s)y> | / (|x| |y|)
};
LawViolations check_laws(const Rotary& rotary, std::int64_t max_position, int samples,
                         std::uint64_t seed);

}  // namespace posenc

// SPDX-License-Identifier: MIT
