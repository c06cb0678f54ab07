// FIRE's tables for the fused kernels, filled here entry by entry as kernels/cuda/fire_tables.h does: the biases that
// they give, and the gradients that follow from the kernels' sums, which are added up by brute force.
#include "torch/composed/fire_terms.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/torch.h>

#include "kernels/fire_segments.h"
#include "posenc/encodings/fire.h"

namespace posenc {
namespace {

using Tensors = std::vector<at::Tensor>;

constexpr std::int64_t kHeads = 3;
constexpr std::int64_t kBatch = 2;

struct Setting {
  std::int64_t width = 16;
  double c = 0.4;
  double threshold_scale = 1.0;
  double init_threshold = 12.3;
  std::int64_t queries = 30;
  std::int64_t keys = 30;
  bool zeros_in_w1 = false;
};

std::vector<Setting> settings() {
  return {{},
          {.width = 1},
          {.width = 32},
          {.c = -0.7, .threshold_scale = -1.3},
          {.init_threshold = 12.0},    // a place at the threshold itself
          {.init_threshold = 1000.0},  // every place within it
          {.init_threshold = 0.5},     // every place but the first beyond it
          {.zeros_in_w1 = true},
          {.width = 1, .zeros_in_w1 = true},
          {.queries = 40, .keys = 25},
          {.queries = 5, .keys = 33}};
}

struct Problem {
  explicit Problem(const Setting& s) {
    torch::manual_seed(11);
    config.width = s.width;
    config.init_threshold = s.init_threshold;
    range = {{s.queries - 1, s.queries + s.keys - 1},
             std::min<std::int64_t>(s.keys - s.queries, 0),
             s.keys - std::min<std::int64_t>(s.keys - s.queries, 0)};
    const auto doubles = at::TensorOptions(at::kDouble);
    const at::Tensor w1 = at::rand({s.width}, doubles) * 4.0 - 2.0;
    const at::Tensor b1 = at::rand({s.width}, doubles) * 2.0 - 1.0;
    if (s.zeros_in_w1) w1.narrow(0, 0, (s.width + 1) / 2).zero_();
    if (s.width > 8) {  // two units that switch together
      w1[9] = 2.0 * w1[8];
      b1[9] = 2.0 * b1[8];
    }
    parameters = {at::full({1}, s.c, doubles),
                  at::full({1}, s.threshold_scale, doubles),
                  w1,
                  b1,
                  at::randn({kHeads, s.width}, doubles),
                  at::randn({kHeads}, doubles)};
    q_places = at::arange(s.keys - s.queries, s.keys, at::kLong);
    k_places = at::arange(s.keys, at::kLong);
  }
  [[nodiscard]] at::Tensor bias(const Tensors& with) const {
    return ops::fire_bias(config, with, q_places.unsqueeze(0), k_places.unsqueeze(0))[0];
  }

  Fire config;
  ops::FireRange range;
  Tensors parameters;
  at::Tensor q_places, k_places;
};

// width + 1 segments; those of units that never switch come last. Float32.
struct Tables {
  explicit Tables(const Problem& p) {
    std::vector<std::vector<double>> v;
    for (const at::Tensor& x : p.parameters) {
      v.emplace_back(x.data_ptr<double>(), x.data_ptr<double>() + x.numel());
    }
    const FireWeights network{v[2].data(), v[3].data(), v[4].data(), v[5].data(), p.config.width};
    std::vector<double> wide = {-INFINITY, INFINITY};
    for (std::int64_t n = 0; n < p.config.width; ++n) {
      const double at = network.switch_of(n);
      wide.push_back(std::isfinite(at) ? at : INFINITY);
    }
    std::sort(wide.begin(), wide.end());
    bounds = at::tensor(wide, at::kDouble).to(at::kFloat);
    slopes = at::empty({kHeads, segments()}, at::kFloat);
    intercepts = at::empty_like(slopes);
    for (std::int64_t i = 0; i < kHeads * segments(); ++i) {
      const auto s = static_cast<std::size_t>(i % segments());
      const FireLine line = fire_line(network, i / segments(), wide[s], wide[s + 1]);
      slopes.data_ptr<float>()[i] = static_cast<float>(line.slope);
      intercepts.data_ptr<float>()[i] = static_cast<float>(line.intercept);
    }
    fill_inputs(p, v[0][0], v[1][0]);
  }
  void fill_inputs(const Problem& p, double c, double threshold_scale) {
    std::vector<double> at_distance, slope, at_place;
    for (std::int64_t i = 0; i < p.range.distances.span; ++i) {
      const auto both = fire_psi(c, i - p.range.distances.before);
      at_distance.push_back(both.value);
      slope.push_back(both.slope);
    }
    for (std::int64_t i = 0; i < p.range.places; ++i) {
      at_place.push_back(
          fire_row_scale(p.config.init_threshold, c, threshold_scale, p.range.lowest_place + i, 1.0)
              .value);
    }
    psi = at::tensor(at_distance, at::kDouble).to(at::kFloat);
    dpsi = at::tensor(slope, at::kDouble).to(at::kFloat);
    row_scale = at::tensor(at_place, at::kDouble).to(at::kFloat);
  }
  [[nodiscard]] std::int64_t segments() const { return bounds.size(0) - 1; }

  at::Tensor bounds, slopes, intercepts, psi, dpsi, row_scale;
};

// What a kernel reads for every query and key, in float64 from the float32 tables: [Tq, Tk].
struct Reading {
  Reading(const Tables& terms, const Problem& p) {
    const at::Tensor apart = p.q_places.unsqueeze(1) - p.k_places.unsqueeze(0);
    const at::Tensor at = apart + p.range.distances.before;
    psi = terms.psi.index({at}).to(at::kDouble);
    dpsi = terms.dpsi.index({at}).to(at::kDouble);
    const at::Tensor scale =
        terms.row_scale.index({p.q_places - p.range.lowest_place}).to(at::kDouble);
    u = psi * scale.unsqueeze(1);
    const at::Tensor inner = terms.bounds.narrow(0, 1, terms.segments() - 1).to(at::kDouble);
    segment = (inner <= u.unsqueeze(-1)).sum(-1);
    slope = terms.slopes.to(at::kDouble).index_select(1, segment.reshape({-1}));
    slope = slope.reshape({kHeads, u.size(0), u.size(1)});
    intercept = terms.intercepts.to(at::kDouble).index_select(1, segment.reshape({-1}));
    intercept = intercept.reshape({kHeads, u.size(0), u.size(1)});
  }
  at::Tensor psi, dpsi, u, segment;
  at::Tensor slope, intercept;  // [H, Tq, Tk]
};

TEST(FireTerms, TablesGiveTheBiasForEveryQueryAndKey) {
  for (const Setting& s : settings()) {
    const Problem p(s);
    const Reading r(Tables(p), p);
    const at::Tensor got = r.slope * r.u + r.intercept;
    const at::Tensor want = p.bias(p.parameters);
    EXPECT_LT((got - want).abs().max().item<double>(), 1e-5) << "width " << s.width;
  }
}

// The scalar formula once more, which knows neither tensors nor tables.
TEST(FireTerms, TablesGiveTheScalarFormula) {
  const Problem p({.c = -0.7, .queries = 40, .keys = 25});
  Parameters values;
  for (const at::Tensor& x : p.parameters) {
    values.emplace_back(x.data_ptr<double>(), x.data_ptr<double>() + x.numel());
  }
  const Reading r(Tables(p), p);
  const at::Tensor got = r.slope * r.u + r.intercept;
  for (std::int64_t n = 0; n < p.q_places.size(0); ++n) {
    for (std::int64_t m = 0; m < p.k_places.size(0); m += 7) {
      const double want = bias(p.config, values, 1, p.q_places[n].item<std::int64_t>(), m);
      ASSERT_NEAR(got[1][n][m].item<double>(), want, 1e-5) << n << " " << m;
    }
  }
}

// The kernels' sums for gradients db [B, H, Tq, Tk] at the biases.
struct Sums {
  Sums(const Tables& terms, const Reading& r, const at::Tensor& db) {
    const at::Tensor within =
        (r.segment.unsqueeze(-1) == at::arange(terms.segments(), at::kLong)).to(at::kDouble);
    const at::Tensor all = db.sum(0);
    segments = at::stack(
        {at::einsum("hqk,qks->hs", {all * r.u, within}), at::einsum("hqk,qks->hs", {all, within})},
        -1);
    rows = at::stack({(db * r.slope * r.dpsi).sum(-1), (db * r.slope * r.psi).sum(-1)}, -1);
  }
  at::Tensor segments, rows;
};

Tensors gradients(const Problem& p, const Sums& sums) {
  return ops::fire_gradients(p.config, p.parameters, sums.segments, sums.rows, p.q_places);
}

double apart(const at::Tensor& got, const at::Tensor& want) {
  return ((got - want).norm() / (want.norm() + 1e-3)).item<double>();
}

TEST(FireTerms, SumsGiveTheGradientsOfAllParameters) {
  for (const Setting& s : settings()) {
    const Problem p(s);
    const Tables terms(p);
    const Reading r(terms, p);
    const at::Tensor db = at::randn({kBatch, kHeads, s.queries, s.keys}, at::kDouble);
    const Sums sums(terms, r, db);
    const Tensors got = gradients(p, sums);
    Tensors leaves;
    for (const at::Tensor& x : p.parameters) leaves.push_back(x.clone().set_requires_grad(true));
    const Tensors want = torch::autograd::grad({p.bias(leaves)}, leaves, {db.sum(0)});
    for (std::size_t i = 0; i < want.size(); ++i) {
      ASSERT_EQ(got[i].sizes(), want[i].sizes()) << i;
      EXPECT_LT(apart(got[i], want[i]), 1e-4)
          << "parameter " << i << " of width " << s.width << ": " << got[i] << want[i];
    }
  }
}

TEST(FireTerms, GradientsAreThoseOfFiniteDifferences) {
  for (const Setting& s : {Setting{}, Setting{.c = -0.7, .threshold_scale = -1.3},
                           Setting{.queries = 40, .keys = 25}}) {
    const Problem p(s);
    const Tables terms(p);
    const at::Tensor db = at::randn({1, kHeads, s.queries, s.keys}, at::kDouble);
    const Sums sums(terms, Reading(terms, p), db);
    const Tensors got = gradients(p, sums);
    constexpr double kStep = 1e-6;
    for (std::size_t i = 0; i < got.size(); ++i) {
      Tensors moved = p.parameters;
      const at::Tensor direction = at::randn_like(moved[i]);
      const auto loss = [&](double step) {
        moved[i] = p.parameters[i] + step * direction;
        return (p.bias(moved) * db[0]).sum().item<double>();
      };
      const double want = (loss(kStep) - loss(-kStep)) / (2.0 * kStep);
      const double along = (got[i] * direction).sum().item<double>();
      EXPECT_NEAR(along, want, 2e-4 * (1.0 + std::abs(want))) << "parameter " << i;
    }
  }
}

// Packed sequences: queries at places of their own, some before the first key.
TEST(FireTerms, RowsAreSummedAtTheirPlaces) {
  const Problem p({.queries = 40, .keys = 25});
  const at::Tensor places = at::tensor({-15, -2, 0, 3, 24, 0, 11}, at::kLong);
  const at::Tensor rows = at::randn({kBatch, kHeads, places.size(0), 2}, at::kDouble);
  const at::Tensor segments = at::zeros({kHeads, p.config.width + 1, 2}, at::kDouble);
  const Tensors got = ops::fire_gradients(p.config, p.parameters, segments, rows, places);
  Tensors sum = {at::zeros({1}, at::kDouble), at::zeros({1}, at::kDouble)};
  for (std::int64_t n = 0; n < places.size(0); ++n) {
    const Tensors one = ops::fire_gradients(p.config, p.parameters, segments, rows.narrow(2, n, 1),
                                            places.narrow(0, n, 1));
    for (std::size_t i = 0; i < 2; ++i) sum[i] = sum[i] + one[i];
  }
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_NEAR(got[i].item<double>(), sum[i].item<double>(), 1e-9) << i;
    EXPECT_NE(got[i].item<double>(), 0.0);
  }
  EXPECT_EQ(got[2].abs().max().item<double>(), 0.0);
}

}  // namespace
}  // namespace posenc
