#include "encodings/hf_pow.h"

#include <cmath>

namespace posenc {
namespace {

constexpr std::size_t kBlock = 32;

// A number as the unevaluated sum of two floats. The operations below are the textbook ones
// (Dekker, Knuth), in the order in which SLEEF's pow (the one PyTorch calls) takes them;
// -ffp-contract=off and explicit fma keep that order on every machine.
struct Pair {
  float high = 0.0F;
  float low = 0.0F;
};

Pair two_sum(float a, float b) {
  const float sum = a + b;
  const float v = sum - a;
  return {sum, (a - (sum - v)) + (b - v)};
}

Pair add(Pair a, float b) {
  const Pair sum = two_sum(a.high, b);
  return {sum.high, sum.low + a.low};
}

Pair add(Pair a, Pair b) {
  const Pair sum = two_sum(a.high, b.high);
  return {sum.high, sum.low + (a.low + b.low)};
}

// For |a| >= |b|.
Pair add_ordered(Pair a, Pair b) {
  const float sum = a.high + b.high;
  return {sum, (((a.high - sum) + b.high) + a.low) + b.low};
}

Pair multiply(Pair a, float b) {
  const float product = a.high * b;
  return {product, std::fma(a.low, b, std::fma(a.high, b, -product))};
}

Pair multiply(Pair a, Pair b) {
  const float product = a.high * b.high;
  const float rounding = std::fma(a.high, b.high, -product);
  return {product, std::fma(a.high, b.low, std::fma(a.low, b.high, rounding))};
}

Pair square(Pair a) {
  const float product = a.high * a.high;
  const float rounding = std::fma(a.high, a.high, -product);
  return {product, std::fma(a.high + a.high, a.low, rounding)};
}

Pair divide(Pair a, Pair b) {
  const float inverse = 1.0F / b.high;
  const float quotient = a.high * inverse;
  const float rounding = std::fma(inverse, a.high, -quotient);
  const float residue = std::fma(-b.low, inverse, std::fma(-b.high, inverse, 1.0F));
  return {quotient, std::fma(quotient, residue, std::fma(a.low, inverse, rounding))};
}

// ln x = e ln 2 + 2 artanh((m - 1)/(m + 1)) with x = m 2^e, m in [0.75, 1.5).
Pair logarithm(float x) {
  const int exponent = std::ilogb(x * (1.0F / 0.75F));
  const float mantissa = std::ldexp(x, -exponent);
  const Pair t = divide(two_sum(-1.0F, mantissa), two_sum(1.0F, mantissa));
  const Pair t2 = square(t);
  float tail = 0.240320355F;
  tail = std::fma(tail, t2.high, 0.285112679F);
  tail = std::fma(tail, t2.high, 0.400007993F);
  const Pair series = add(multiply(t2, tail), Pair{0.666666627F, 3.69183861e-09F});
  const Pair ln2{0.693147182F, -1.90465432e-09F};
  const Pair lead =
      add_ordered(multiply(ln2, static_cast<float>(exponent)), Pair{2.0F * t.high, 2.0F * t.low});
  return add_ordered(lead, multiply(multiply(t2, t), series));
}

// e^x = 2^q e^s with |s| <= ln(2)/2.
float exponential(Pair x) {
  const auto q = static_cast<int>(std::nearbyint((x.high + x.low) * 1.44269504F));
  const auto turns = static_cast<float>(q);
  Pair s = add(add(x, turns * -0.693145752F), turns * -1.42860677e-06F);
  const float sum = s.high + s.low;
  s = {sum, (s.high - sum) + s.low};
  float tail = 0.00136324647F;
  tail = std::fma(tail, s.high, 0.00836596917F);
  tail = std::fma(tail, s.high, 0.0416710824F);
  tail = std::fma(tail, s.high, 0.166665524F);
  tail = std::fma(tail, s.high, 0.499999851F);
  const Pair rest = add_ordered(s, multiply(square(s), tail));
  const Pair result = add_ordered(Pair{1.0F, 0.0F}, rest);
  return std::ldexp(result.high + result.low, q);
}

float vector_pow(float base, float exponent) {
  return exponential(multiply(logarithm(base), exponent));
}

// The C library's float pow is within 0.52 units; the double's, rounded, is the same but for
// rarities.
float scalar_pow(float base, float exponent) {
  return static_cast<float>(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
}

}  // namespace

std::vector<float> hf_powers(float base, std::span<const float> exponents) {
  const bool ordinary = std::isnormal(base) && base > 0.0F;
  const std::size_t in_blocks = ordinary ? exponents.size() / kBlock * kBlock : 0;
  std::vector<float> powers;
  for (std::size_t i = 0; i < exponents.size(); ++i) {
    powers.push_back(i < in_blocks ? vector_pow(base, exponents[i])
                                   : scalar_pow(base, exponents[i]));
  }
  return powers;
}

}  // namespace posenc
