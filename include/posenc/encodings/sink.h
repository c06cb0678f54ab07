// Attention sink (site 5, softmax): a logit per head that takes part in the softmax but has no value.
//
//   p_ij = exp(s_ij) / (SUM_j exp(s_ij) + exp(z_h))
//
// The weights of a row then sum to less than one, so a head can attend to nothing. With o and lse of the plain softmax,
//
//   o' = o sigmoid(lse - z),   lse' = ln(exp(lse) + exp(z)),   dz_h = -SUM_i exp(z_h - lse'_i) <do'_i, o'_i>
//
// and the rest of the backward is the plain one with o' and lse'. A row whose keys are all masked keeps output 0 and
// lse -infinity. Several sinks add; a logit of -infinity is no sink.
//
// gpt-oss (OpenAI 2025, arXiv 2508.10925); Miller 2023, "Attention Is Off By One", is z = 0.
// Parameters: logit [heads].
#pragma once

#include "posenc/encodings/common.h"
#include "posenc/encodings/dual.h"

namespace posenc {

struct Sink {
  double init = 0.0;

  static constexpr Traits kTraits{
      .name = "sink",
      .site = Site::kSoftmax,
      .title = "attention sink",
      .formula = "p_ij = exp(s_ij) / (SUM_j exp(s_ij) + exp(z_h))",
      .tex = R"(p_{ij} = \frac{e^{s_{ij}}}{\sum_t e^{s_{it}} + e^{z_h}})",
      .where = "z is a trained logit per head: its share of a row goes to no token.",
      .paper = "OpenAI 2025, arXiv 2508.10925",
      .relative = true,
      .extrapolates = true,
      .linear_attention = false,
  };
  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("init", self.init,
          FieldRule{.doc = "value of every logit before training", .min = -1000, .max = 1000});
  }

  bool operator==(const Sink&) const = default;
};

void validate(const Sink& config, const ModelShape& shape);
std::vector<ParameterInfo> parameters(const Sink& config, const ModelShape& shape);

// The effect of a sink on a row.
template <class Real>
struct SinkRow {
  Real share;  // of the keys: o' = share o
  Real lse;
};
// `lse` must not be -infinity: callers handle rows without keys.
template <class Real>
POSENC_HOST_DEVICE SinkRow<Real> add_sink(Real lse, Real logit) {
  using std::exp;
  using std::log1p;
  const Real over = logit - lse;
  const Real small = exp(over > Real(0) ? -over : over);
  const Real larger = over > Real(0) ? logit : lse;
  return {(over > Real(0) ? small : Real(1)) / (Real(1) + small), larger + log1p(small)};
}

}  // namespace posenc

// SPDX-License-Identifier: MIT
