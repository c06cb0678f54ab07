// Long-range decay of RoPE: the bound of the paper, and what random queries and keys do.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plots/inputs.h"
#include "plots/kinds.h"
#include "plots/panels.h"
#include "posenc/encodings/analysis.h"

namespace posenc::plots {
namespace {

struct Line {
  std::string name;
  Rotary rotary;
  std::int64_t group;
};

// xPos is refused: its powers of zeta are no part of the bound.
const Rope& rope_of(const PlotRequest& request, const NamedSpec& named) {
  constexpr std::string_view kInstead = "rope; posenc plot similarity shows xpos too";
  const auto* rope = std::get_if<Rope>(&single_encoding(request, named, kInstead));
  if (rope != nullptr) return *rope;
  refuse(ErrorKind::kUnsupported, "encodings", "must be rope for decay",
         "'" + to_text(named.spec) + "'", fmt::format("take {}", kInstead));
}

// Every encoding with every theta, or with its own.
std::vector<Line> lines_of(const PlotRequest& request, const std::vector<NamedSpec>& specs) {
  std::vector<Line> lines;
  const Lengths lengths{.sequence = request.length + 1, .context = 0};
  const auto add = [&](std::string name, const Rope& rope) {
    Rotary rotary = make_rotary(rope, shape_of(request), lengths);
    const std::int64_t group = rotary.group_of(request.head, request.heads);
    lines.push_back({std::move(name), std::move(rotary), group});
  };
  for (const NamedSpec& named : specs) {
    Rope rope = rope_of(request, named);
    require_own_angles(request, named, rope);
    if (request.theta.empty()) add(named.label, rope);
    for (const double theta : request.theta) {
      rope.theta = {theta};
      const std::string base = fmt::format("θ = {}", plain_number(theta));
      add(specs.size() == 1 ? base : named.label + ", " + base, rope);
    }
  }
  return lines;
}

struct Moments {
  double mean = 0.0;
  double deviation = 0.0;
};

// Of <R(m) q, k> / (|q| |k|) over random q, with k = q or k drawn too. Per pair, with a = q0 k0 + q1 k1
// and b = q0 k1 - q1 k0, the product is SUM a cos(m f) + b sin(m f).
class RandomScores {
 public:
  RandomScores(const PlotRequest& request, const Line& line, bool same)
      : frequencies_(line.rotary.inv_freq[line.group]) {
    const auto seed = static_cast<std::uint64_t>(request.seed);
    const std::int64_t dim = 2 * line.rotary.pairs();
    for (std::int64_t s = 0; s < request.samples; ++s) {
      const auto q = normal_vector(dim, seed, 2 * static_cast<std::uint64_t>(s));
      const auto k = same ? q : normal_vector(dim, seed, 2 * static_cast<std::uint64_t>(s) + 1);
      add(q, k);
    }
  }

  [[nodiscard]] Moments operator()(std::int64_t distance) const {
    std::vector<double> cosines;
    std::vector<double> sines;
    for (const double f : frequencies_) {
      cosines.push_back(std::cos(static_cast<double>(distance) * f));
      sines.push_back(std::sin(static_cast<double>(distance) * f));
    }
    double sum = 0.0;
    double squares = 0.0;
    for (std::size_t s = 0; s < even_.size(); ++s) {
      const double value = dot(even_[s], cosines) + dot(odd_[s], sines);
      sum += value;
      squares += value * value;
    }
    const auto n = static_cast<double>(even_.size());
    return {sum / n, std::sqrt(std::max(0.0, squares / n - sum / n * sum / n))};
  }

 private:
  void add(const std::vector<double>& q, const std::vector<double>& k) {
    const double lengths = std::sqrt(dot(q, q) * dot(k, k));
    std::vector<double> even;
    std::vector<double> odd;
    for (std::size_t c = 0; c < q.size(); c += 2) {
      even.push_back((q[c] * k[c] + q[c + 1] * k[c + 1]) / lengths);
      odd.push_back((q[c] * k[c + 1] - q[c + 1] * k[c]) / lengths);
    }
    even_.push_back(std::move(even));
    odd_.push_back(std::move(odd));
  }

  const std::vector<double>& frequencies_;
  std::vector<std::vector<double>> even_;
  std::vector<std::vector<double>> odd_;
};

draw::Curve random_curve(const PlotRequest& request, const Line& line, bool same, int color) {
  const RandomScores scores(request, line, same);
  draw::Curve curve;
  curve.name = same ? line.name : "independent key";
  curve.color = color;
  curve.stroke = same ? draw::Stroke::kSolid : draw::Stroke::kDashed;
  for (const std::int64_t m : thinned(request.length, 512)) {
    const Moments moments = scores(m);
    curve.x.push_back(static_cast<double>(m));
    curve.y.push_back(moments.mean);
    if (!same) continue;
    curve.low.push_back(moments.mean - moments.deviation);
    curve.high.push_back(moments.mean + moments.deviation);
  }
  return curve;
}

draw::Panel bound_panel(const PlotRequest& request, const std::vector<Line>& lines) {
  draw::Panel panel;
  panel.title = "bound: mean of |S_{j}|";
  panel.x.label = "distance m (tokens)";
  panel.y.label = "mean |S_{j}(m)| (pairs)";
  panel.y.low = 0.0;
  int color = 0;
  for (const Line& line : lines) {
    const std::vector<double> bound = decay_curve(line.rotary, request.length, line.group);
    const auto value = [&](std::int64_t m) { return bound[m]; };
    panel.curves.push_back(curve_over(line.name, thinned(request.length, 1024), value, color++));
  }
  return panel;
}

draw::Panel random_panel(const PlotRequest& request, const std::vector<Line>& lines) {
  draw::Panel panel;
  panel.title = "random queries, and keys equal to them";
  panel.x.label = "distance m (tokens)";
  panel.y.label = "inner product / (|q| |k|)";
  int color = 0;
  for (const Line& line : lines) panel.curves.push_back(random_curve(request, line, true, color++));
  panel.curves.push_back(random_curve(request, lines.front(), false, color));
  panel.rules.push_back({0.0, "", false});
  return panel;
}

}  // namespace

draw::Figure plot_decay(const PlotRequest& request) {
  constexpr std::size_t kMost = 7;
  const std::vector<NamedSpec> specs = read_specs(request, kMost);
  if (specs.size() * std::max<std::size_t>(1, request.theta.size()) > kMost) {
    refuse(ErrorKind::kWrongLength, "theta", "must leave at most 7 curves (encodings times theta)",
           std::to_string(specs.size() * request.theta.size()), "leave some out");
  }
  const std::vector<Line> lines = lines_of(request, specs);
  draw::Figure figure;
  figure.title = "Long-range decay";
  figure.columns = 2;
  figure.panels = {bound_panel(request, lines), random_panel(request, lines)};
  figure.caption = fmt::format(
      "Left: the bound on rotated products, the mean over j of |S_{{j}}(m)|, S_{{j}}(m) = "
      "Σ_{{p<j}} e^{{i·m·ω(p)}} with the frequencies ω, Su et al. 2021. Right: mean and one "
      "deviation over {} normal queries (seed "
      "{}) with a key equal to the query, which decays; an independent key averages 0 at every "
      "distance. {}, head_dim {}.",
      request.samples, request.seed, spec_list(specs), request.head_dim);
  return figure;
}

}  // namespace posenc::plots
