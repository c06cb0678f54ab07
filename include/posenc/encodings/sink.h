// A sink (site 5, the softmax): a number per head that takes a share of every row's weight and has no value.
//
//   p_ij = exp(s_ij) / (SUM_j exp(s_ij) + exp(z_h))
//
// A head can then look at nothing: weights of a row sum to less than one. With o and lse those of the plain softmax,
//
//   o' = o sigmoid(lse - z),   lse' = ln(exp(lse) + exp(z)),   dz_h = -SUM_i exp(z_h - lse'_i) <do'_i, o'_i>
//
// and the rest of the backward is the plain one with o' and lse'. A row that sees no key keeps its output 0 and its
// lse -infinity. Several sinks add up; -infinity is none.
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
      .title = "a share for no token",
      .formula = "p_ij = exp(s_ij) / (SUM_j exp(s_ij) + exp(z_h))",
      .tex = R"(p_{ij} = \frac{e^{s_{ij}}}{\sum_t e^{s_{it}} + e^{z_h}})",
      .where = "z is a trained number per head: its share of a row goes to no token.",
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

// What a sink leaves of a row.
template <class Real>
struct SinkRow {
  Real share;  // of the keys: o' = share o
  Real lse;
};
// `lse` is finite or NaN: rows without a key have no share to give.
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
