#include "kernels/cpu/rope_simd.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels/cpu/rows_simd.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rope_simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace posenc::HWY_NAMESPACE {
namespace {

using cpu::RopeAngles;
using cpu::RopeRowPlan;

using Df = hn::ScalableTag<float>;
using Vf = hn::Vec<Df>;

// (x, y) -> (x c - y s, x s + y c), or back.
template <bool kBack, class D>
HWY_INLINE void turn_pair(D /*d*/, hn::Vec<D> c, hn::Vec<D> s, hn::Vec<D>& x, hn::Vec<D>& y) {
  const auto xc = hn::Mul(x, c);
  const auto yc = hn::Mul(y, c);
  const auto first = kBack ? hn::MulAdd(y, s, xc) : hn::NegMulAdd(y, s, xc);
  y = kBack ? hn::NegMulAdd(x, s, yc) : hn::MulAdd(x, s, yc);
  x = first;
}

// A row, and where the row lies that will be read after this block, in bytes from it: each vector
// that is read fetches the one that will be.
template <class T>
struct Row {
  const T* in;
  T* out;
  std::ptrdiff_t ahead;

  HWY_INLINE void fetch(std::size_t channel) const {
    constexpr int kForReading = 0;
    constexpr int kSecondLevel = 2;
    __builtin_prefetch(reinterpret_cast<const std::byte*>(in + channel) + ahead, kForReading,
                       kSecondLevel);
  }
};

// x and y half a window apart.
template <bool kBack, class T>
HWY_INLINE void turn_half(const RopeRowPlan& plan, std::size_t from, const Row<T>& row,
                          RopeAngles angles) {
  const T* in = row.in;
  T* out = row.out;
  const T* second = in + plan.pairs;
  T* second_out = out + plan.pairs;
  for_each_vector(plan.pairs - from, [&](auto d, std::size_t n) HWY_ATTR {
    const std::size_t p = from + n;
    row.fetch(p);
    row.fetch(plan.pairs + p);
    auto x = load_as_float(d, in + p);
    auto y = load_as_float(d, second + p);
    turn_pair<kBack>(d, hn::LoadU(d, angles.cos + p), hn::LoadU(d, angles.sin + p), x, y);
    store_float(x, d, out + p);
    store_float(y, d, second_out + p);
  });
}

// Neighbouring channels: x * cos + swapped(x) * (-sin, +sin). A target of single lanes has nothing to
// swap within a vector and takes the two channels one by one.
template <bool kBack, class T>
HWY_INLINE void turn_interleaved(std::size_t channels, const Row<T>& row, RopeAngles angles) {
  const T* in = row.in;
  T* out = row.out;
  const auto body = [&](auto d, std::size_t i) HWY_ATTR {
    row.fetch(i);
    auto x = load_as_float(d, in + i);
    const auto c = hn::LoadU(d, angles.cos + i);
#if HWY_TARGET == HWY_SCALAR
    auto y = load_as_float(d, in + i + 1);
    turn_pair<kBack>(d, c, hn::LoadU(d, angles.sin + i + 1), x, y);
    store_float(x, d, out + i);
    store_float(y, d, out + i + 1);
#else
    const auto s = hn::LoadU(d, angles.sin + i);
    const auto swapped = hn::Reverse2(d, x);
    const auto xc = hn::Mul(x, c);
    store_float(kBack ? hn::NegMulAdd(swapped, s, xc) : hn::MulAdd(swapped, s, xc), d, out + i);
#endif
  };
  const Df full;
  const hn::CappedTag<float, 2> one_pair;
  const std::size_t step = HWY_MAX(hn::Lanes(full), 2);
  std::size_t i = 0;
  for (; i + step <= channels; i += step) body(full, i);
  for (; i < channels; i += 2) body(one_pair, i);
}

#if HWY_TARGET == HWY_SCALAR
constexpr bool kHasWords = false;
template <bool kBack>
HWY_INLINE void turn_words(const RopeRowPlan& /*plan*/, const Row<hwy::bfloat16_t>& /*row*/,
                           RopeAngles /*angles*/) {}
#else
constexpr bool kHasWords = true;

// Two bfloat16 channels in a word as two float32: the lower half is the first channel.
struct WordPair {
  Vf first;
  Vf second;
};

HWY_INLINE WordPair load_words(const hwy::bfloat16_t* from) {
  const Df d;
  const hn::RebindToUnsigned<Df> du;
  const hn::Repartition<std::uint16_t, Df> du16;
  const auto words = hn::BitCast(du, hn::LoadU(du16, reinterpret_cast<const std::uint16_t*>(from)));
  return {hn::BitCast(d, hn::ShiftLeft<16>(words)),
          hn::BitCast(d, hn::And(words, hn::Set(du, 0xFFFF0000u)))};
}

// Round to nearest, ties to even; the result is the upper half of each lane. NaN needs no care here: one
// that comes of bfloat16 channels and finite angles has zeros in its lower half, and nothing carries.
HWY_INLINE hn::Vec<hn::RebindToUnsigned<Df> > rounded(Vf v) {
  const hn::RebindToUnsigned<Df> du;
  const auto bits = hn::BitCast(du, v);
  const auto odd = hn::TestBit(bits, hn::Set(du, 0x10000u));
  return hn::Add(bits, hn::IfThenElse(odd, hn::Set(du, 0x8000u), hn::Set(du, 0x7FFFu)));
}

HWY_INLINE void store_words(const WordPair& pair, hwy::bfloat16_t* to) {
  const hn::RebindToUnsigned<Df> du;
  const hn::Repartition<std::uint16_t, Df> du16;
  const auto words = hn::OrAnd(hn::ShiftRight<16>(rounded(pair.first)), rounded(pair.second),
                               hn::Set(du, 0xFFFF0000u));
  hn::StoreU(hn::BitCast(du16, words), du16, reinterpret_cast<std::uint16_t*>(to));
}

// The first word_pairs of a row.
template <bool kBack>
HWY_INLINE void turn_words(const RopeRowPlan& plan, const Row<hwy::bfloat16_t>& row,
                           RopeAngles angles) {
  const hwy::bfloat16_t* in = row.in;
  hwy::bfloat16_t* out = row.out;
  const Df d;
  const std::size_t lanes = hn::Lanes(d);
  if (plan.interleaved) {
    for (std::size_t p = 0; p < plan.word_pairs; p += lanes) {
      row.fetch(2 * p);
      WordPair pair = load_words(in + 2 * p);
      turn_pair<kBack>(d, hn::LoadU(d, angles.cos + p), hn::LoadU(d, angles.sin + p), pair.first,
                       pair.second);
      store_words(pair, out + 2 * p);
    }
    return;
  }
  const std::size_t half = plan.word_pairs / 2;
  for (std::size_t n = 0; n < half; n += lanes) {
    row.fetch(2 * n);
    row.fetch(plan.pairs + 2 * n);
    WordPair x = load_words(in + 2 * n);
    WordPair y = load_words(in + plan.pairs + 2 * n);
    turn_pair<kBack>(d, hn::LoadU(d, angles.cos + n), hn::LoadU(d, angles.sin + n), x.first,
                     y.first);
    turn_pair<kBack>(d, hn::LoadU(d, angles.cos + half + n), hn::LoadU(d, angles.sin + half + n),
                     x.second, y.second);
    store_words(x, out + 2 * n);
    store_words(y, out + plan.pairs + 2 * n);
  }
}
#endif

template <bool kBack, bool kInterleaved, class T>
HWY_INLINE void turn_row(const RopeRowPlan& plan, const Row<T>& row, RopeAngles angles) {
  const std::size_t done = plan.word_pairs;
  if constexpr (std::is_same_v<T, hwy::bfloat16_t>) turn_words<kBack>(plan, row, angles);
  if constexpr (kInterleaved) {
    turn_interleaved<kBack, T>(2 * (plan.pairs - done),
                               {row.in + 2 * done, row.out + 2 * done, row.ahead},
                               {angles.cos + done, angles.sin + done});
  } else {
    turn_half<kBack>(plan, done, row, angles);
  }
}

struct RowSpan {
  const std::byte* in;
  std::ptrdiff_t in_stride;
  std::byte* out;
  std::ptrdiff_t out_stride;
  std::size_t count;
  const std::byte* next;
};

template <bool kBack, bool kInterleaved, class T>
void turn_typed(const RopeRowPlan& plan, const RowSpan& rows, RopeAngles angles,
                std::size_t angle_stride) {
  const std::size_t tail = plan.offset + 2 * plan.pairs;
  const std::ptrdiff_t ahead = rows.next != nullptr ? rows.next - rows.in : 0;
  for (std::size_t r = 0; r < rows.count; ++r) {
    const auto n = static_cast<std::ptrdiff_t>(r);
    const T* row = reinterpret_cast<const T*>(rows.in + n * rows.in_stride);
    T* row_out = reinterpret_cast<T*>(rows.out + n * rows.out_stride);
    if (row != row_out) {
      std::memcpy(row_out, row, plan.offset * sizeof(T));
      std::memcpy(row_out + tail, row + tail, (plan.channels - tail) * sizeof(T));
    }
    turn_row<kBack, kInterleaved, T>(
        plan, {row + plan.offset, row_out + plan.offset, ahead},
        {angles.cos + r * angle_stride, angles.sin + r * angle_stride});
  }
}

template <class T>
void turn_as(const RopeRowPlan& plan, const RowSpan& rows, RopeAngles angles,
             std::size_t angle_stride) {
  const auto turn = plan.interleaved
                        ? (plan.back ? turn_typed<true, true, T> : turn_typed<false, true, T>)
                        : (plan.back ? turn_typed<true, false, T> : turn_typed<false, false, T>);
  turn(plan, rows, angles, angle_stride);
}

void turn_rows_simd(const RopeRowPlan& plan, const std::byte* in, std::ptrdiff_t in_stride,
                    std::byte* out, std::ptrdiff_t out_stride, std::size_t count, RopeAngles angles,
                    std::size_t angle_stride, const std::byte* next) {
  const RowSpan rows{in, in_stride, out, out_stride, count, next};
  with_type(plan.dtype,
            [&](auto tag) { turn_as<decltype(tag)>(plan, rows, angles, angle_stride); });
}

std::size_t word_pairs_simd(bool interleaved, std::size_t pairs) {
  if (!kHasWords) return 0;
  const std::size_t step = hn::Lanes(Df()) * (interleaved ? 1 : 2);
  return pairs / step * step;
}

}  // namespace
}  // namespace posenc::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace posenc::cpu {

HWY_EXPORT(turn_rows_simd);
HWY_EXPORT(word_pairs_simd);

void expand_angles(const RopeRowPlan& plan, const float* cos, const float* sin, float* cos_out,
                   float* sin_out) noexcept {
  const std::size_t words = plan.word_pairs;
  if (!plan.interleaved) {
    for (std::size_t n = 0; n < words / 2; ++n) {
      cos_out[n] = cos[2 * n];
      sin_out[n] = sin[2 * n];
      cos_out[words / 2 + n] = cos[2 * n + 1];
      sin_out[words / 2 + n] = sin[2 * n + 1];
    }
    std::copy(cos + words, cos + plan.pairs, cos_out + words);
    std::copy(sin + words, sin + plan.pairs, sin_out + words);
    return;
  }
  std::copy_n(cos, words, cos_out);
  std::copy_n(sin, words, sin_out);
  for (std::size_t p = words; p < plan.pairs; ++p) {
    const std::size_t at = words + 2 * (p - words);
    cos_out[at] = cos_out[at + 1] = cos[p];
    sin_out[at] = -sin[p];
    sin_out[at + 1] = sin[p];
  }
}

void turn_rows(const RopeRowPlan& plan, const std::byte* in, std::ptrdiff_t in_stride,
               std::byte* out, std::ptrdiff_t out_stride, std::size_t count, RopeAngles angles,
               std::size_t angle_stride, const std::byte* next) noexcept {
  HWY_DYNAMIC_DISPATCH(turn_rows_simd)
  (plan, in, in_stride, out, out_stride, count, angles, angle_stride, next);
}

std::size_t word_pairs(bool interleaved, std::size_t pairs) noexcept {
  return HWY_DYNAMIC_DISPATCH(word_pairs_simd)(interleaved, pairs);
}

void add_frequency_gradient(const RopeRowPlan& plan, const std::byte* x, const std::byte* dy,
                            RopeAngles angles, float* scratch, float position,
                            float* gradient) noexcept {
  const std::size_t start = plan.offset * dtype_size(plan.dtype);
  row_to_float(plan.dtype, x + start, 2 * plan.pairs, scratch);
  row_to_float(plan.dtype, dy + start, 2 * plan.pairs, scratch + 2 * plan.pairs);
  const std::size_t step = plan.interleaved ? 2 : 1;
  const std::size_t apart = plan.interleaved ? 1 : plan.pairs;
  const float* dy_row = scratch + 2 * plan.pairs;
  for (std::size_t p = 0; p < plan.pairs; ++p) {
    const std::size_t first = step * p;
    const float c = angles.cos[first];
    const float s = angles.sin[plan.interleaved ? first + 1 : first];
    const float y1 = scratch[first] * c - scratch[first + apart] * s;
    const float y2 = scratch[first] * s + scratch[first + apart] * c;
    gradient[p] += position * (y1 * dy_row[first + apart] - y2 * dy_row[first]);
  }
}

}  // namespace posenc::cpu
#endif  // HWY_ONCE
