#include "kernels/cpu/pair_simd.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/pair_simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/path_terms-inl.h"

HWY_BEFORE_NAMESPACE();
namespace posenc::HWY_NAMESPACE {
namespace {

using cpu::KeyProblem;
using cpu::PlaneEntries;
using cpu::PlaneProblem;
using cpu::TwoSidedProblem;

// Keys that are multiplied at a time with the columns of all distances that they have to a block.
constexpr std::size_t kStrip = 16;
constexpr std::size_t kMostColumns = KeyProblem::kPast;

struct Strip {
  std::size_t first;  // key
  std::size_t count;
  std::size_t column;  // of the last key and the first query
  std::size_t columns;
};

// Calls near(strip) for keys at distances that the table distinguishes, and far(key, above) for others.
template <class Near, class Far>
void for_strips(const KeyProblem& p, const PairRange& range, const Near& near, const Far& far) {
  const auto in_range = [&](std::int64_t key) {
    return static_cast<std::size_t>(std::clamp(key, static_cast<std::int64_t>(range.first_key),
                                               static_cast<std::int64_t>(range.end_key)));
  };
  const auto last_lane = static_cast<std::int64_t>(kQueryBlock) - 1;
  const std::size_t first = in_range(range.place - p.highest);
  const std::size_t end = in_range(range.place + last_lane - p.lowest + 1);
  const std::size_t lanes = hn::Lanes(Df());
  for (std::size_t j = range.first_key; j < first; ++j) far(j, true);
  for (std::size_t j = first; j < end; j += kStrip) {
    Strip strip{j, std::min(kStrip, end - j), 0, 0};
    const std::int64_t lowest = range.place - static_cast<std::int64_t>(j + strip.count - 1);
    strip.column = static_cast<std::size_t>(lowest - p.first);
    strip.columns = (kQueryBlock + strip.count - 1 + lanes - 1) / lanes * lanes;
    near(strip);
  }
  for (std::size_t j = std::max(first, end); j < range.end_key; ++j) far(j, false);
}

void add_key_products_simd(const KeyProblem& p, const PairRange& range, float* values) {
  const Df d;
  HWY_ALIGN std::array<float, kStrip * kMostColumns> products;
  const auto near = [&](const Strip& strip) HWY_ATTR {
    multiply<false>({p.keys.data + strip.first * p.keys.stride, p.keys.stride, 1},
                    {p.table + strip.column, p.columns}, {products.data(), kMostColumns},
                    strip.count, strip.columns, p.dim);
    for (std::size_t j = 0; j < strip.count; ++j) {
      const float* from = products.data() + j * kMostColumns + (strip.count - 1 - j);
      float* to = values + (strip.first + j) * kQueryBlock;
      for (std::size_t v = 0; v < kQueryBlock; v += hn::Lanes(d)) {
        hn::StoreU(hn::Add(hn::LoadU(d, to + v), hn::LoadU(d, from + v)), d, to + v);
      }
    }
  };
  const auto far = [&](std::size_t key, bool above) HWY_ATTR {
    const float* products_at_end = above ? p.above : p.below;
    if (products_at_end == nullptr) return;
    const auto product = hn::Set(d, products_at_end[key]);
    float* to = values + key * kQueryBlock;
    for (std::size_t v = 0; v < kQueryBlock; v += hn::Lanes(d)) {
      hn::StoreU(hn::Add(hn::LoadU(d, to + v), product), d, to + v);
    }
  };
  for_strips(p, range, near, far);
}

// Pair by pair: an entry or a key behind a gradient of 0 may be NaN.
void careful_key_gradients(const KeyProblem& p, const Strip& strip, const float* dvalues,
                           float* dkeys, float* dtable) {
  for (std::size_t j = strip.first; j < strip.first + strip.count; ++j) {
    for (std::size_t r = 0; r < kQueryBlock; ++r) {
      const float gradient = dvalues[j * kQueryBlock + r];
      if (gradient == 0.0f) continue;
      const std::size_t column = strip.column + (strip.first + strip.count - 1 - j) + r;
      add_scaled(gradient, p.transposed + column * p.padded_dim, p.padded_dim,
                 dkeys + j * p.padded_dim);
      add_scaled(gradient, p.keys.data + j * p.keys.stride, p.padded_dim,
                 dtable + column * p.padded_dim);
    }
  }
}

void key_gradients_simd(const KeyProblem& p, const PairRange& range, const float* dvalues,
                        float* dkeys, float* dtable) {
  const Df d;
  const std::size_t dim = p.padded_dim;
  HWY_ALIGN std::array<float, kStrip * kMostColumns> gradients;
  AlignedFloats of_below(dim, 0.0f);  // of the block, so that sums of many keys stay exact
  AlignedFloats of_above(dim, 0.0f);
  const auto near = [&](const Strip& strip) HWY_ATTR {
    const float* keys = p.keys.data + strip.first * p.keys.stride;
    if (!p.finite || !all_finite(keys, p.keys.stride, strip.count, dim)) {
      careful_key_gradients(p, strip, dvalues, dkeys, dtable);
      return;
    }
    gradients.fill(0.0f);
    for (std::size_t j = 0; j < strip.count; ++j) {
      std::copy_n(dvalues + (strip.first + j) * kQueryBlock, kQueryBlock,
                  gradients.data() + j * kMostColumns + (strip.count - 1 - j));
    }
    multiply<true>({gradients.data(), kMostColumns, 1}, {p.transposed + strip.column * dim, dim},
                   {dkeys + strip.first * dim, dim}, strip.count, dim, strip.columns);
    multiply<true>({gradients.data(), 1, kMostColumns}, {keys, p.keys.stride},
                   {dtable + strip.column * dim, dim}, strip.columns, dim, strip.count);
  };
  const auto far = [&](std::size_t key, bool above) HWY_ATTR {
    if ((above ? p.above : p.below) == nullptr) return;
    const float* from = dvalues + key * kQueryBlock;
    auto sum = hn::Zero(d);
    auto none = hn::Eq(sum, sum);
    for (std::size_t v = 0; v < kQueryBlock; v += hn::Lanes(d)) {
      const auto gradient = hn::LoadU(d, from + v);
      sum = hn::Add(sum, gradient);
      none = hn::And(none, hn::Eq(gradient, hn::Zero(d)));
    }
    if (hn::AllTrue(d, none)) return;  // the key may be NaN
    const float gradient = hn::GetLane(hn::SumOfLanes(d, sum));
    const std::size_t column = above ? p.columns - 1 : 0;
    add_scaled(gradient, p.transposed + column * dim, dim, dkeys + key * dim);
    add_scaled(gradient, p.keys.data + key * p.keys.stride, dim,
               (above ? of_above : of_below).data());
  };
  for_strips(p, range, near, far);
  add_scaled(1.0f, of_below.data(), dim, dtable);
  add_scaled(1.0f, of_above.data(), dim, dtable + (p.columns - 1) * dim);
}

// A difference from a base as a sum of two floats, so that differences of two of them lose nothing.
void split_sum(double x, float& whole, float& rest) {
  whole = static_cast<float>(x);
  rest = static_cast<float>(x - static_cast<double>(whole));
}

// Lanes whose query is at a key's place or after it.
HWY_INLINE hn::Mask<Df> is_before(const PairRange& range, std::size_t key, std::size_t v) {
  const Df d;
  const std::int64_t lane = static_cast<std::int64_t>(key) - range.place;
  return hn::Ge(hn::Iota(d, static_cast<float>(v)), hn::Set(d, static_cast<float>(lane)));
}

void add_two_sided_simd(const TwoSidedProblem& p, const PairRange& range, float* values) {
  const Df d;
  const double base = p.sums[std::max<std::int64_t>(range.place, 0)];
  PerQuery before{}, before_rest{}, after{}, after_rest{};
  for (std::size_t r = 0; r < range.count; ++r) {
    const std::int64_t i = range.place + static_cast<std::int64_t>(r);
    split_sum((i >= 0 ? p.sums[i] : 0.0) - base, before[r], before_rest[r]);
    split_sum(base - (i > 0 ? p.sums[i - 1] : 0.0), after[r], after_rest[r]);
  }
  for (std::size_t j = range.first_key; j < range.end_key; ++j) {
    const double unknown = p.keys[j] - p.sums[j];  // 0, or NaN
    float left = 0.0f, left_rest = 0.0f, right = 0.0f, right_rest = 0.0f;
    split_sum(base - p.sums[j] + unknown, left, left_rest);
    split_sum((j > 0 ? p.sums[j - 1] : 0.0) - base + unknown, right, right_rest);
    float* to = values + j * kQueryBlock;
    for (std::size_t v = 0; v < kQueryBlock; v += hn::Lanes(d)) {
      const auto of_left =
          hn::Add(hn::Add(hn::LoadU(d, before.data() + v), hn::Set(d, left)),
                  hn::Add(hn::LoadU(d, before_rest.data() + v), hn::Set(d, left_rest)));
      const auto of_right =
          hn::Add(hn::Add(hn::LoadU(d, after.data() + v), hn::Set(d, right)),
                  hn::Add(hn::LoadU(d, after_rest.data() + v), hn::Set(d, right_rest)));
      const auto term = hn::IfThenElse(is_before(range, j, v), of_left, of_right);
      hn::StoreU(hn::Add(hn::LoadU(d, to + v), term), d, to + v);
    }
  }
}

void two_sided_gradients_simd(const PairRange& range, const float* dvalues, double* dsums) {
  const Df d;
  for (std::size_t first = range.first_key; first < range.end_key; first += kKeyBlock) {
    const std::size_t end = std::min(first + kKeyBlock, range.end_key);
    PerQuery before{}, after{};
    for (std::size_t j = first; j < end; ++j) {
      auto left = hn::Zero(d);
      auto right = hn::Zero(d);
      for (std::size_t v = 0; v < kQueryBlock; v += hn::Lanes(d)) {
        const auto gradient = hn::LoadU(d, dvalues + j * kQueryBlock + v);
        const auto is_left = is_before(range, j, v);
        const auto of_left = hn::IfThenElseZero(is_left, gradient);
        const auto of_right = hn::IfThenZeroElse(is_left, gradient);
        left = hn::Add(left, of_left);
        right = hn::Add(right, of_right);
        hn::StoreU(hn::Add(hn::LoadU(d, before.data() + v), of_left), d, before.data() + v);
        hn::StoreU(hn::Add(hn::LoadU(d, after.data() + v), of_right), d, after.data() + v);
      }
      dsums[j] -= static_cast<double>(hn::GetLane(hn::SumOfLanes(d, left)));
      if (j > 0) dsums[j - 1] += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, right)));
    }
    for (std::size_t r = 0; r < range.count; ++r) {
      const std::int64_t i = range.place + static_cast<std::int64_t>(r);
      if (i >= 0) dsums[i] += static_cast<double>(before[r]);
      if (i > 0) dsums[i - 1] -= static_cast<double>(after[r]);
    }
  }
}

void plane_entries_simd(const PlaneProblem& p, std::int32_t key_y, std::int32_t key_x,
                        PlaneEntries& first, PlaneEntries& second) {
  const hn::ScalableTag<std::int32_t> d;
  const auto entry = [&](const std::int32_t* queries, std::int32_t key, std::int32_t size)
                         HWY_ATTR {
                           const auto most = hn::Set(d, size - 1);
                           const auto distance = hn::Sub(hn::LoadU(d, queries), hn::Set(d, key));
                           return hn::Add(hn::Max(hn::Min(distance, most), hn::Neg(most)), most);
                         };
  for (std::size_t v = 0; v < kQueryBlock; v += hn::Lanes(d)) {
    const auto row = entry(p.query_y + v, key_y, p.height);
    const auto column = entry(p.query_x + v, key_x, p.width);
    if (p.separable) {
      hn::StoreU(row, d, first.data() + v);
      hn::StoreU(column, d, second.data() + v);
    } else {
      hn::StoreU(hn::Add(hn::Mul(row, hn::Set(d, 2 * p.width - 1)), column), d, first.data() + v);
    }
  }
}

void add_entries_simd(const float* table, const PlaneEntries& entries, float* values) {
  const Df d;
  const hn::RebindToSigned<Df> di;
  for (std::size_t v = 0; v < kQueryBlock; v += hn::Lanes(d)) {
    const auto read = hn::GatherIndex(d, table, hn::LoadU(di, entries.data() + v));
    hn::StoreU(hn::Add(hn::LoadU(d, values + v), read), d, values + v);
  }
}

}  // namespace
}  // namespace posenc::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace posenc::cpu {

HWY_EXPORT(add_path_sums_simd);
HWY_EXPORT(path_gradients_simd);
HWY_EXPORT(add_key_products_simd);
HWY_EXPORT(key_gradients_simd);
HWY_EXPORT(add_two_sided_simd);
HWY_EXPORT(two_sided_gradients_simd);
HWY_EXPORT(plane_entries_simd);
HWY_EXPORT(add_entries_simd);

void add_path_sums(const PathProblem& problem, const PairRange& range, float* values) {
  HWY_DYNAMIC_DISPATCH(add_path_sums_simd)(problem, range, values);
}
double path_gradients(const PathProblem& problem, const PairRange& range, const float* dvalues,
                      float* dp, float* de) {
  return HWY_DYNAMIC_DISPATCH(path_gradients_simd)(problem, range, dvalues, dp, de);
}

void add_key_products(const KeyProblem& problem, const PairRange& range, float* values) {
  HWY_DYNAMIC_DISPATCH(add_key_products_simd)(problem, range, values);
}
void key_gradients(const KeyProblem& problem, const PairRange& range, const float* dvalues,
                   float* dkeys, float* dtable) {
  HWY_DYNAMIC_DISPATCH(key_gradients_simd)(problem, range, dvalues, dkeys, dtable);
}

void add_two_sided(const TwoSidedProblem& problem, const PairRange& range, float* values) {
  HWY_DYNAMIC_DISPATCH(add_two_sided_simd)(problem, range, values);
}
void two_sided_gradients(const PairRange& range, const float* dvalues, double* dsums) {
  HWY_DYNAMIC_DISPATCH(two_sided_gradients_simd)(range, dvalues, dsums);
}

void plane_entries(const PlaneProblem& problem, std::int32_t key_y, std::int32_t key_x,
                   PlaneEntries& first, PlaneEntries& second) {
  HWY_DYNAMIC_DISPATCH(plane_entries_simd)(problem, key_y, key_x, first, second);
}
void add_entries(const float* table, const PlaneEntries& entries, float* values) {
  HWY_DYNAMIC_DISPATCH(add_entries_simd)(table, entries, values);
}

}  // namespace posenc::cpu
#endif  // HWY_ONCE
