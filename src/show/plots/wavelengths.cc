// Wavelengths of RoPE's pairs, and where a schedule interpolates, blends or extrapolates.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "plots/inputs.h"
#include "plots/kinds.h"
#include "plots/panels.h"
#include "posenc/encodings/analysis.h"

namespace posenc::plots {
namespace {

Lengths tested(const PlotRequest& request) { return {.sequence = request.length, .context = 0}; }

std::vector<std::int64_t> all_pairs(const Rotary& rotary) {
  std::vector<std::int64_t> pairs(rotary.pairs());
  std::iota(pairs.begin(), pairs.end(), 0);
  return pairs;
}

draw::Panel wavelengths_panel(const PlotRequest& request, const std::vector<NamedSpec>& specs) {
  draw::Panel panel;
  panel.title = "wavelengths";
  panel.x.label = "pair of channels p";
  panel.y.label = "wavelength 2π/ω (tokens)";
  panel.y.log = true;
  int color = 0;
  for (const NamedSpec& named : specs) {
    const Rotary rotary = single_rotary(request, named, tested(request));
    const auto lengths = wavelengths(rotary, rotary.group_of(request.head, request.heads));
    const auto value = [&](std::int64_t p) { return lengths[p]; };
    panel.curves.push_back(curve_over(named.label, all_pairs(rotary), value, color++));
  }
  panel.rules.push_back({static_cast<double>(request.train_length),
                         fmt::format("trained on {}", request.train_length), false});
  return panel;
}

std::string regime_name(PairRegime regime) { return std::string(enum_name(regime)); }

// A curve of dots per regime; their colours are none of those of the specs.
void add_regimes(draw::Panel& panel, const std::vector<PairRegime>& regimes,
                 const std::function<double(std::int64_t)>& slowed) {
  constexpr int kFirstColor = 4;
  for (const PairRegime regime :
       {PairRegime::kExtrapolates, PairRegime::kBlends, PairRegime::kInterpolates}) {
    std::vector<std::int64_t> pairs;
    for (std::size_t p = 0; p < regimes.size(); ++p) {
      if (regimes[p] == regime) pairs.push_back(static_cast<std::int64_t>(p));
    }
    if (pairs.empty()) continue;
    draw::Curve curve =
        curve_over(regime_name(regime), pairs, slowed, kFirstColor + static_cast<int>(regime));
    curve.stroke = draw::Stroke::kDots;
    panel.curves.push_back(std::move(curve));
  }
}

// How many times slower each pair turns than under the default schedule with the same theta.
draw::Panel regimes_panel(const PlotRequest& request, const NamedSpec& named) {
  const auto& rope = std::get<Rope>(named.spec.encodings[0]);
  Rope plain = rope;
  plain.schedule = DefaultSchedule{};
  const ModelShape shape = shape_of(request);
  const Rotary changed = make_rotary(rope, shape, tested(request));
  const std::int64_t group = changed.group_of(request.head, request.heads);
  const auto g = static_cast<std::size_t>(group);
  const std::vector<double> original = make_rotary(plain, shape, tested(request)).inv_freq[g];
  const auto slowed = [&](std::int64_t p) {
    const auto at = static_cast<std::size_t>(p);
    return original[at] / changed.inv_freq[g][at];
  };
  draw::Panel panel;
  panel.title = named.label;
  panel.x.label = "pair of channels p";
  panel.y.label = "times slower than the default";
  add_regimes(panel, pair_regimes(rope, shape, tested(request), group), slowed);
  panel.x.low = -0.5;
  panel.x.high = static_cast<double>(changed.pairs()) - 0.5;
  return panel;
}

}  // namespace

draw::Figure plot_wavelengths(const PlotRequest& request) {
  const std::vector<NamedSpec> specs = read_specs(request, 4);
  draw::Figure figure;
  figure.title = "Wavelengths, and what a schedule does to them";
  figure.columns = 2;
  figure.panels.push_back(wavelengths_panel(request, specs));
  for (const NamedSpec& named : specs) {
    const auto* rope = std::get_if<Rope>(&named.spec.encodings[0]);
    if (rope == nullptr || rope->schedule.index() == 0) continue;
    figure.panels.push_back(regimes_panel(request, named));
  }
  figure.caption = fmt::format(
      "Pairs above the line are longer than the {} trained tokens and never came round in "
      "training; ω is a pair's frequency. A schedule slows pairs: as much as any (interpolates: a "
      "longer sequence is "
      "squeezed into trained angles), less (blends) or not at all (extrapolates). Pairs that stand "
      "still are left out. Frequencies for {} tokens: {}, head_dim {}.",
      request.train_length, request.length, spec_list(specs), request.head_dim);
  return figure;
}

}  // namespace posenc::plots
