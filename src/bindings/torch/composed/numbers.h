// Adapts tensors to the number type of the encodings' formulas (posenc/encodings/dual.h).
#pragma once

#include <ATen/ATen.h>

#include "posenc/encodings/dual.h"

namespace posenc::formulas {

// As a slope, undefined: 0 everywhere.
struct Numbers {
  at::Tensor all;

  friend Numbers operator-(const Numbers& a) { return a.all.defined() ? Numbers{-a.all} : a; }
  friend Numbers operator+(const Numbers& a, const Numbers& b) {
    if (!a.all.defined()) return b;
    return b.all.defined() ? Numbers{a.all + b.all} : a;
  }
  friend Numbers operator*(const Numbers& a, const Numbers& b) { return {a.all * b.all}; }
  friend Numbers operator*(const Numbers& a, double b) {
    return a.all.defined() ? Numbers{a.all * b} : a;
  }
  friend Numbers operator+(const Numbers& a, double b) { return {a.all + b}; }
  friend Numbers operator/(double a, const Numbers& b) { return {b.all.reciprocal() * a}; }

  friend Numbers floor(const Numbers& a) { return {a.all.floor()}; }
  friend Numbers log(const Numbers& a) { return {a.all.log()}; }
  friend Numbers log1p(const Numbers& a) { return {a.all.log1p()}; }
  friend Numbers tanh(const Numbers& a) { return {a.all.tanh()}; }
  friend Numbers times(const Numbers& a, double factor) { return a * factor; }
  friend Numbers cos(const Numbers& a) { return {a.all.cos()}; }
  friend Numbers pow(const Numbers& base, const Numbers& power) {
    return {base.all.pow(power.all)};
  }
  friend Numbers magnitude(const Numbers& a) { return {a.all.abs()}; }
  friend Numbers sign_of(const Numbers& a) {
    return {1.0 - 2.0 * (a.all < 0).to(a.all.scalar_type())};
  }
  // Not clamp_min(): its gradient is 0 for a NaN, and at the bound it is not.
  friend Numbers at_least(const Numbers& a, double low) {
    return {at::where(a.all <= low, at::full({}, low, a.all.options()), a.all)};
  }
  friend Numbers at_least(const Numbers& a, const Numbers& low) {
    return {at::where(a.all <= low.all, low.all, a.all)};
  }
  friend Numbers at_most(const Numbers& a, double high) {
    return {at::where(a.all >= high, at::full({}, high, a.all.options()), a.all)};
  }

  friend Numbers chained(const Numbers& slope, const Numbers& derivative) {
    if (!slope.all.defined()) return slope;
    const at::Tensor product = slope.all * derivative.all;
    return {at::where(slope.all == 0, at::zeros({}, product.options()), product)};
  }
  friend Numbers slope_above(const Numbers& slope, const Numbers& x, double bound) {
    return slope.all.defined() ? Numbers{slope.all.masked_fill(x.all <= bound, 0.0)} : slope;
  }
  friend Numbers slope_above(const Numbers& slope, const Numbers& x, const Numbers& bound) {
    if (!slope.all.defined()) return slope;
    return {at::where(x.all <= bound.all, at::zeros({}, slope.all.options()), slope.all)};
  }
  friend Numbers slope_below(const Numbers& slope, const Numbers& x, double bound) {
    return slope.all.defined() ? Numbers{slope.all.masked_fill(x.all >= bound, 0.0)} : slope;
  }
};

inline Dual<Numbers> at_least(const Dual<Numbers>& a, const Numbers& low) {
  return {at_least(a.value, low), slope_above(a.slope, a.value, low)};
}

}  // namespace posenc::formulas
