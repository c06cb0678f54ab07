// Temperature (site 2): queries are multiplied by a factor that grows with their position, so that attention stays sharp
// for rows with many keys.
//
//   q'_i = tau(i) q_i,   n = i + offset
//
//   step:   tau = 1 + scale ln(1 + floor(n / floor))      Llama 4: scale 0.1, floor 8192; Ministral 3: offset 0
//   log:    tau = 1 + scale ln(max(n / floor, 1))
//   ssmax:  tau = s_h ln(n)                               Scalable-Softmax; s_h is trained, initially `init`
//
// Negative positions count as 0. Keys do not change, so it does not affect a key/value cache. Terms that use plain
// queries (CoPE's table, relative_query) are not scaled; terms that use raw scores (CoPE's gates) are.
//
// Llama 4 (Meta 2025); Nakanishi 2025, "Scalable-Softmax Is Superior for Attention", arXiv 2501.19399.
// Parameters: scale [heads] with kind=ssmax, else none.
#pragma once

#include "posenc/encodings/common.h"
#include "posenc/encodings/dual.h"

namespace posenc {

struct Temperature {
  enum class Kind { kStep, kLog, kSsmax };
  friend constexpr std::array<std::string_view, 3> enum_names(Kind /*tag*/) {
    return {"step", "log", "ssmax"};
  }

  Kind kind = Kind::kStep;
  double scale = 0.1;
  double floor = 8192.0;
  double init = 0.43;
  std::int64_t offset = 1;

  static constexpr Traits kTraits{
      .name = "temperature",
      .site = Site::kQueryKey,
      .title = "queries scaled by their position",
      .formula = "q'_i = tau(i) q_i, tau = 1 + scale ln(1 + floor((i + 1) / floor))",
      .tex = R"(q'_i = \tau(i)\,q_i,\qquad )"
             R"(\tau(i) = 1 + a \ln\Bigl(1 + \Bigl\lfloor \frac{i + 1}{F} \Bigr\rfloor\Bigr))",
      .where = "a is scale and F is floor: rows longer than F positions become sharper.",
      .paper = "Nakanishi 2025, arXiv 2501.19399",
      .relative = false,
      .extrapolates = true,
      .linear_attention = false,
  };
  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("kind", self.kind, FieldRule{.doc = "formula of the factor"});
    visit("scale", self.scale,
          rule_between("growth per natural logarithm; step and log", 0, 1e3, {0, 1}));
    visit("floor", self.floor,
          rule_between("positions before it grows; step and log", 1, 1e15, log_range(64, 65536)));
    visit("init", self.init,
          rule_between("initial value of every head's factor; ssmax", -1e3, 1e3, {0, 2}));
    visit("offset", self.offset,
          FieldRule{.doc = "added to the position to count tokens: 1, or 0 as in Ministral 3",
                    .min = 0,
                    .max = 1,
                    .advanced = true});
  }

  // tau of the query at a position, without the trained factor s_h.
  template <class Real>
  [[nodiscard]] Real factor(const Real& position) const {
    using formulas::at_least;
    using formulas::times;
    using std::floor;
    using std::log;
    using std::log1p;
    const Real n = at_least(position, 0.0) + static_cast<double>(offset);
    if (kind == Kind::kSsmax) return log(at_least(n, 1.0));
    const Real share = times(n, 1.0 / this->floor);
    const Real steps = kind == Kind::kStep ? log1p(floor(share)) : log(at_least(share, 1.0));
    return times(steps, scale) + 1.0;
  }
  [[nodiscard]] bool trained() const { return kind == Kind::kSsmax; }

  bool operator==(const Temperature&) const = default;
};

void validate(const Temperature& config, const ModelShape& shape);
std::vector<ParameterInfo> parameters(const Temperature& config, const ModelShape& shape);

}  // namespace posenc

// SPDX-License-Identifier: MIT
