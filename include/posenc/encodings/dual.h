// Dual numbers for forward-mode differentiation. A formula that is a template over its number type yields its own
// derivative, so no second formula has to be kept in sync:
//
//   const auto y = formula(Dual<double>{x, 1.0});   // y.value = f(x), y.slope = f'(x)
//
// Real is a floating-point type on the host or the device, or a tensor (torch/composed/numbers.h). If a formula
// multiplies a Dual by a Real, the Real is a constant with respect to the variable.
#pragma once

#include <cmath>
#include <concepts>

#if defined(__CUDACC__)
#define POSENC_HOST_DEVICE __host__ __device__
#else
#define POSENC_HOST_DEVICE
#endif

namespace posenc::formulas {

// --- numbers: functions for formulas in addition to <cmath> --------------------------------------

// max(x, low) and min(x, high); NaN stays NaN.
template <std::floating_point Real>
POSENC_HOST_DEVICE Real at_least(Real x, double low) {
  return x <= static_cast<Real>(low) ? static_cast<Real>(low) : x;
}
template <std::floating_point Real>
POSENC_HOST_DEVICE Real at_most(Real x, double high) {
  return x >= static_cast<Real>(high) ? static_cast<Real>(high) : x;
}
template <std::floating_point Real>
POSENC_HOST_DEVICE Real times(Real x, double factor) {
  return x * static_cast<Real>(factor);
}
template <std::floating_point Real>
POSENC_HOST_DEVICE Real magnitude(Real x) {
  return x < Real(0) ? -x : x;
}

template <std::floating_point Real>
POSENC_HOST_DEVICE Real sign_of(Real x) {
  return x < Real(0) ? Real(-1) : Real(1);
}

// The chain rule. A slope of 0 stays 0 even if the derivative is infinite or NaN.
template <std::floating_point Real>
POSENC_HOST_DEVICE Real chained(Real slope, Real derivative) {
  return slope == Real(0) ? slope : slope * derivative;
}
// The slope of a clamp: 0 where `x` is clamped to `bound`, and at the bound itself.
template <std::floating_point Real>
POSENC_HOST_DEVICE Real slope_above(Real slope, Real x, double bound) {
  return x <= static_cast<Real>(bound) ? Real(0) : slope;
}
template <std::floating_point Real>
POSENC_HOST_DEVICE Real slope_below(Real slope, Real x, double bound) {
  return x >= static_cast<Real>(bound) ? Real(0) : slope;
}

// --- duals --------------------------------------------------------------------------------------

template <class Real>
struct Dual {
  Real value;
  Real slope;

  POSENC_HOST_DEVICE friend Dual operator-(const Dual& a) { return {-a.value, -a.slope}; }
  POSENC_HOST_DEVICE friend Dual operator+(const Dual& a, const Dual& b) {
    return {a.value + b.value, a.slope + b.slope};
  }
  POSENC_HOST_DEVICE friend Dual operator*(const Dual& a, const Dual& b) {
    return {a.value * b.value, chained(a.slope, b.value) + chained(b.slope, a.value)};
  }
  POSENC_HOST_DEVICE friend Dual operator*(const Dual& a, const Real& b) {
    return {a.value * b, chained(a.slope, b)};
  }
  POSENC_HOST_DEVICE friend Dual operator*(const Dual& a,
                                           double b) requires(!std::floating_point<Real>) {
    return {a.value * b, a.slope * b};
  }
  POSENC_HOST_DEVICE friend Dual operator+(const Dual& a, double b) {
    return {a.value + b, a.slope};
  }
  POSENC_HOST_DEVICE friend Dual operator/(double a, const Dual& b) {
    const Real inverse = 1.0 / b.value;
    return {inverse * a, chained(b.slope, -(inverse * inverse * a))};
  }
  POSENC_HOST_DEVICE friend Dual magnitude(const Dual& a) {
    return {magnitude(a.value), chained(a.slope, sign_of(a.value))};
  }
  POSENC_HOST_DEVICE friend Dual log1p(const Dual& a) {
    using std::log1p;
    return {log1p(a.value), chained(a.slope, 1.0 / (a.value + 1.0))};
  }
  // For base > 0.
  POSENC_HOST_DEVICE friend Dual pow(const Real& base, const Dual& power) {
    using std::log;
    using std::pow;
    const Real raised = pow(base, power.value);
    return {raised, chained(power.slope, raised * log(base))};
  }
  POSENC_HOST_DEVICE friend Dual at_least(const Dual& a, double low) {
    return {at_least(a.value, low), slope_above(a.slope, a.value, low)};
  }
  POSENC_HOST_DEVICE friend Dual at_most(const Dual& a, double high) {
    return {at_most(a.value, high), slope_below(a.slope, a.value, high)};
  }
};

}  // namespace posenc::formulas

// SPDX-License-Identifier: MIT
