// What a rotary encoding does, in figures: wavelengths, decay, ambiguity, and its laws.
#pragma once

#include <optional>
#include <span>

#include "posenc/encodings/rotary.h"

namespace posenc {

// 2 pi / inv_freq[p]: positions per full turn; infinite for a pair that does not turn.
std::vector<double> wavelengths(const Rotary& rotary, std::int64_t group = 0);

// Full turns that each pair has made after `length` positions: length * inv_freq[p] / (2 pi).
std::vector<double> rotations_at(const Rotary& rotary, std::int64_t length, std::int64_t group = 0);

// The longest distance at which the slowest turning pair has not yet come full circle: beyond it
// every pair has wrapped, and two distances can look alike to each. None where nothing turns.
std::optional<std::int64_t> max_unambiguous_distance(const Rotary& rotary, std::int64_t group = 0);

// Long-range decay: for m = 0 .. max_distance, the mean over j = 1 .. pairs of |S_j(m)|,
// S_j(m) = SUM_{p<j} exp(i m inv_freq[p]); by Abel summation it bounds the rotated inner product.
// Su et al. 2021, arXiv 2104.09864, section 3.4.3 and figure 2.
std::vector<double> decay_curve(const Rotary& rotary, std::int64_t max_distance,
                                std::int64_t group = 0);

// What a schedule does to a pair, against the default schedule with the same theta.
enum class PairRegime {
  kExtrapolates,  // unchanged or faster: a longer sequence shows it angles beyond the trained ones
  kBlends,        // slowed, and less than the slowest
  kInterpolates,  // slowed as much as any pair: a longer sequence is squeezed into trained angles
  kStill          // does not turn
};
constexpr std::array<std::string_view, 4> enum_names(PairRegime /*tag*/) {
  return {"extrapolates", "blends", "interpolates", "still"};
}
std::vector<PairRegime> pair_regimes(const Rope& config, const ModelShape& shape,
                                     const Lengths& lengths, std::int64_t group = 0);

// The largest violation found over random vectors and positions up to max_position.
struct LawViolations {
  double norm = 0.0;      // | |R(n)x| - a |x| | / |x|, a the attention factor
  double group = 0.0;     // | R(m)R(n)x - a R(m+n)x | / |x|
  double inverse = 0.0;   // | R(n)^T R(n) x - a^2 x | / |x|
  double relative = 0.0;  // | <R(i)x, R(j)y> - <R(i+s)x, R(j+s)y> | / (|x| |y|)
};
LawViolations check_laws(const Rotary& rotary, std::int64_t max_position, int samples,
                         std::uint64_t seed);

}  // namespace posenc
