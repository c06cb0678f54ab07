// GrapeAp in a block of queries (PathProblem): sums of steps over keys, and their gradients. Included once per target.
#if defined(POSENC_KERNELS_CPU_PATH_TERMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POSENC_KERNELS_CPU_PATH_TERMS_INL_H_
#undef POSENC_KERNELS_CPU_PATH_TERMS_INL_H_
#else
#define POSENC_KERNELS_CPU_PATH_TERMS_INL_H_
#endif

#include <algorithm>
#include <array>

#include "kernels/cpu/gemm-inl.h"
#include "kernels/cpu/math-inl.h"
#include "kernels/cpu/pair_simd.h"

HWY_BEFORE_NAMESPACE();
namespace posenc::HWY_NAMESPACE {

using cpu::kKeyBlock;
using cpu::kQueryBlock;
using cpu::PairRange;
using cpu::PathProblem;
using Df = hn::ScalableTag<float>;
using Vf = hn::Vec<Df>;
using PerQuery = std::array<float, kQueryBlock>;

// Keys whose steps are computed at a time: they stay in the first-level cache.
constexpr std::size_t kStepKeys = 64;

// Sums of many small numbers, as pairs of floats: the second has what the first has lost.
struct RunningSums {
  PerQuery high{};
  PerQuery low{};
};
HWY_INLINE void add_exactly(Vf x, Vf& high, Vf& low) {
  const auto sum = hn::Add(high, x);
  const auto part = hn::Sub(sum, high);
  low = hn::Add(low, hn::Add(hn::Sub(high, hn::Sub(sum, part)), hn::Sub(x, part)));
  high = sum;
}

// -ln sigmoid(step) and sigmoid(-step), its derivative with respect to -step.
struct StepCost {
  Vf cost;
  Vf slope;
};
template <bool kWithSlope>
HWY_INLINE StepCost step_cost(Vf step) {
  const Df d;
  const auto zero = hn::Zero(d);
  const auto most = hn::Set(d, 1e30f);  // sums stay finite
  const auto negative = hn::Lt(step, zero);
  const auto size = hn::Abs(step);
  const auto e = fast_exp(d, hn::Neg(size));
  auto cost = hn::Add(hn::IfThenElseZero(negative, size), fast_log1p(d, e));
  cost = hn::IfThenElse(hn::Gt(cost, most), most, cost);
  if constexpr (!kWithSlope) return {cost, zero};
  const auto larger = hn::Div(hn::Set(d, 1.0f), hn::Add(hn::Set(d, 1.0f), e));
  return {cost, hn::IfThenElse(negative, larger, hn::Mul(e, larger))};
}

// What a block of queries multiplies the rows of keys with.
class PathQueries {
 public:
  PathQueries(const PathProblem& p, const PairRange& range)
      : rows_(AlignedFloats(p.rank * kQueryBlock, 0.0f)) {
    first = static_cast<std::size_t>(
        std::clamp<std::int64_t>(-range.place, 0, static_cast<std::int64_t>(range.count)));
    for (std::size_t r = first; r < range.count; ++r) {
      const auto token = static_cast<std::size_t>(range.place + static_cast<std::int64_t>(r));
      const float* row = p.p.data + token * p.p.stride;
      for (std::size_t c = 0; c < p.rank; ++c) rows_[c * kQueryBlock + r] = p.factor * row[c];
      lost[r] = p.lost_p[token];
      finite = finite && lost[r] == 0.0f;
    }
  }
  // [keys][kQueryBlock]
  void fill_steps(const PathProblem& p, std::size_t first_key, std::size_t count,
                  float* steps) const {
    multiply<false>({p.e.data + first_key * p.e.stride, p.e.stride, 1}, {rows_.data(), kQueryBlock},
                    {steps, kQueryBlock}, count, kQueryBlock, p.rank);
  }

  std::size_t first;  // query that has a token
  PerQuery lost{};
  bool finite = true;

 private:
  AlignedFloats rows_;  // [rank][kQueryBlock]
};

// Whether every query passes the steps of some keys.
inline bool all_pass(const PathProblem& p, const PairRange& range, std::size_t first_key,
                     std::size_t count) {
  const auto first = static_cast<std::int64_t>(first_key);
  const std::int64_t last = first + static_cast<std::int64_t>(count) - 1;
  const std::int64_t last_place = range.place + static_cast<std::int64_t>(kQueryBlock) - 1;
  return p.key_mask == nullptr && last <= range.place - p.own &&
         last_place - first <= p.window_left;
}
HWY_INLINE hn::Mask<Df> passes(const PathProblem& p, const PairRange& range, std::size_t key,
                               std::size_t v) {
  const Df d;
  if (p.key_mask != nullptr && p.key_mask[key] == 0) return hn::FirstN(d, 0);
  const std::int64_t m = static_cast<std::int64_t>(key) - range.place;
  const auto lane = hn::Iota(d, static_cast<float>(v));
  return hn::And(hn::Ge(lane, hn::Set(d, static_cast<float>(m + p.own))),
                 hn::Le(lane, hn::Set(d, static_cast<float>(m + p.window_left))));
}

template <bool kMasked>
HWY_NOINLINE void add_steps(const PathProblem& p, const PairRange& range,
                            const PathQueries& queries, std::size_t first_key, std::size_t count,
                            const float* steps, RunningSums& sums, float* values) {
  const Df d;
  const auto slope = hn::Set(d, -p.slope);
  for (std::size_t v = 0; v < kQueryBlock; v += hn::Lanes(d)) {
    const auto lost = hn::LoadU(d, queries.lost.data() + v);
    auto high = hn::LoadU(d, sums.high.data() + v);
    auto low = hn::LoadU(d, sums.low.data() + v);
    for (std::size_t j = count; j-- > 0;) {
      const std::size_t key = first_key + j;
      float* at = values + key * kQueryBlock + v;
      const auto unknown = hn::Add(lost, hn::Set(d, p.lost_e[key]));
      const auto added = hn::MulAdd(slope, hn::Add(high, low), unknown);
      hn::StoreU(hn::Add(hn::LoadU(d, at), added), d, at);
      auto cost = step_cost<false>(hn::LoadU(d, steps + j * kQueryBlock + v)).cost;
      if constexpr (kMasked) cost = hn::IfThenElseZero(passes(p, range, key, v), cost);
      add_exactly(cost, high, low);
    }
    hn::StoreU(high, d, sums.high.data() + v);
    hn::StoreU(low, d, sums.low.data() + v);
  }
}

inline void add_path_sums_simd(const PathProblem& p, const PairRange& range, float* values) {
  HWY_ALIGN std::array<float, kStepKeys * kQueryBlock> steps;
  const PathQueries queries(p, range);
  RunningSums sums;
  for (std::size_t end = range.end_key; end > range.first_key;) {
    const std::size_t count = std::min(kStepKeys, end - range.first_key);
    end -= count;
    queries.fill_steps(p, end, count, steps.data());
    if (all_pass(p, range, end, count)) {
      add_steps<false>(p, range, queries, end, count, steps.data(), sums, values);
    } else {
      add_steps<true>(p, range, queries, end, count, steps.data(), sums, values);
    }
  }
}

// Steps to their gradients, in place. `before` sums the gradients of keys that a step fades; returns SUM of those times
// the cost of the step, and NaN also where no step is passed.
template <bool kMasked>
HWY_NOINLINE float steps_backward(const PathProblem& p, const PairRange& range,
                                  std::size_t first_key, std::size_t count, const float* dvalues,
                                  float* steps, RunningSums& before) {
  const Df d;
  const auto zero = hn::Zero(d);
  const auto factor = hn::Set(d, p.factor * p.slope);
  auto total = zero;
  for (std::size_t v = 0; v < kQueryBlock; v += hn::Lanes(d)) {
    auto high = hn::LoadU(d, before.high.data() + v);
    auto low = hn::LoadU(d, before.low.data() + v);
    for (std::size_t j = 0; j < count; ++j) {
      float* at = steps + j * kQueryBlock + v;
      const auto gradient = hn::LoadU(d, dvalues + (first_key + j) * kQueryBlock + v);
      const auto faded = hn::Add(high, low);
      auto read = hn::Not(hn::Eq(faded, zero));  // a step behind a gradient of 0 may be NaN
      if constexpr (kMasked) read = hn::And(read, passes(p, range, first_key + j, v));
      const StepCost step = step_cost<true>(hn::LoadU(d, at));
      const auto dstep = hn::Mul(hn::Mul(factor, faded), step.slope);
      hn::StoreU(hn::IfThenElseZero(read, dstep), d, at);
      total = hn::Add(total, hn::IfThenElseZero(read, hn::Mul(faded, step.cost)));
      total = hn::MulAdd(zero, gradient, total);
      add_exactly(gradient, high, low);
    }
    hn::StoreU(high, d, before.high.data() + v);
    hn::StoreU(low, d, before.low.data() + v);
  }
  return hn::GetLane(hn::SumOfLanes(d, total));
}

// The gradients of rows of p and e from those of the steps of some keys.
inline void rows_backward(const PathProblem& p, const PairRange& range, const PathQueries& queries,
                          std::size_t first_key, std::size_t count, const float* dsteps, float* dp,
                          float* de) {
  const std::size_t stride = p.e.stride;
  const std::size_t rows = range.count - queries.first;
  const std::size_t token = static_cast<std::size_t>(
      range.place + static_cast<std::int64_t>(queries.first));  // of the first query with one
  const float* e = p.e.data + first_key * stride;
  const float* q = p.p.data + token * stride;
  const bool finite =
      queries.finite && std::all_of(p.lost_e + first_key, p.lost_e + first_key + count,
                                    [](float lost) { return lost == 0.0f; });
  dsteps += queries.first;
  dp += token * stride;
  de += first_key * stride;
  if (finite) {
    multiply<true>({dsteps, 1, kQueryBlock}, {e, stride}, {dp, stride}, rows, stride, count);
    multiply<true>({dsteps, kQueryBlock, 1}, {q, stride}, {de, stride}, count, stride, rows);
    return;
  }
  for (std::size_t j = 0; j < count; ++j) {
    for (std::size_t r = 0; r < rows; ++r) {
      const float dstep = dsteps[j * kQueryBlock + r];
      if (dstep == 0.0f) continue;
      add_scaled(dstep, e + j * stride, stride, dp + r * stride);
      add_scaled(dstep, q + r * stride, stride, de + j * stride);
    }
  }
}

inline double path_gradients_simd(const PathProblem& p, const PairRange& range,
                                  const float* dvalues, float* dp, float* de) {
  HWY_ALIGN std::array<float, kStepKeys * kQueryBlock> steps;
  const PathQueries queries(p, range);
  RunningSums before;
  double dslope = 0.0;
  for (std::size_t first = range.first_key; first < range.end_key; first += kStepKeys) {
    const std::size_t count = std::min(kStepKeys, range.end_key - first);
    queries.fill_steps(p, first, count, steps.data());
    const float total =
        all_pass(p, range, first, count)
            ? steps_backward<false>(p, range, first, count, dvalues, steps.data(), before)
            : steps_backward<true>(p, range, first, count, dvalues, steps.data(), before);
    dslope -= static_cast<double>(total);
    if (queries.first < range.count) {
      rows_backward(p, range, queries, first, count, steps.data(), dp, de);
    }
  }
  return dslope;
}

}  // namespace posenc::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
