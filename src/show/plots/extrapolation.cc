// Extrapolation: which pairs meet angles beyond those of the training length.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "plots/inputs.h"
#include "plots/kinds.h"
#include "plots/panels.h"

namespace posenc::plots {
namespace {

constexpr double kTurn = 2.0 * std::numbers::pi;

// Frequencies trained with, and those used at the tested length. A model trains with the default
// schedule; a schedule changes the frequencies afterwards.
struct Frequencies {
  std::vector<double> trained;
  std::vector<double> used;
};

Frequencies rope_frequencies(const PlotRequest& request, const Rope& rope) {
  Rope plain = rope;
  plain.schedule = DefaultSchedule{};
  const ModelShape shape = shape_of(request);
  const Rotary trained =
      make_rotary(plain, shape, {.sequence = request.train_length, .context = 0});
  const Rotary used = make_rotary(rope, shape, {.sequence = request.length, .context = 0});
  const auto group = static_cast<std::size_t>(used.group_of(request.head, request.heads));
  return {trained.inv_freq[group], used.inv_freq[group]};
}

Frequencies frequencies_of(const PlotRequest& request, const NamedSpec& named) {
  constexpr std::string_view kInstead = "sinusoidal, rope or xpos, which have frequencies";
  const Encoding& encoding = single_encoding(request, named, kInstead);
  if (const auto* rope = std::get_if<Rope>(&encoding)) {
    require_own_angles(request, named, *rope);
    return rope_frequencies(request, *rope);
  }
  if (const auto* sinusoidal = std::get_if<Sinusoidal>(&encoding)) {
    const auto f = sinusoidal_frequencies(*sinusoidal, request.head_dim);
    return {f, f};
  }
  if (std::holds_alternative<Xpos>(encoding)) {
    const auto f =
        single_rotary(request, named, {.sequence = request.length, .context = 0}).inv_freq[0];
    return {f, f};
  }
  refuse(ErrorKind::kUnsupported, "encodings", "must have frequencies for extrapolation",
         "'" + to_text(named.spec) + "'", fmt::format("take {}", kInstead));
}

// Degrees from the angle at a position to the nearest of the angles 0 .. trained arc; hidden where it
// is one of these, or where the pair came full circle in training.
double unseen_degrees(double trained, double used, std::int64_t train_length,
                      std::int64_t position) {
  const double arc = static_cast<double>(train_length) * trained;
  if (arc >= kTurn) return kHidden;
  const double angle = std::fmod(static_cast<double>(position) * used, kTurn);
  if (angle < arc) return kHidden;
  return std::min(angle - arc, kTurn - angle) * 360.0 / kTurn;
}

// The first position at which a pair meets an unseen angle, where there is one: a line along the map.
draw::Curve first_unseen(const PlotRequest& request, const Frequencies& f) {
  draw::Curve line;
  line.color = 1;
  for (std::size_t p = 0; p < f.used.size(); ++p) {
    const double arc = static_cast<double>(request.train_length) * f.trained[p];
    const double first = f.used[p] == f.trained[p] ? static_cast<double>(request.train_length)
                                                   : std::ceil(arc / f.used[p]);
    const bool beyond = arc < kTurn && first < static_cast<double>(request.length);
    for (const double edge : {-0.5, 0.5}) {
      line.x.push_back(beyond ? first : 0.0);
      line.y.push_back(beyond ? static_cast<double>(p) + edge : kHidden);
    }
  }
  return line;
}

std::vector<std::int64_t> pair_indices(const Frequencies& f) {
  const auto last = std::ssize(f.used) - 1;
  return thinned(last, last + 1);
}

draw::Panel unseen_panel(const PlotRequest& request, const NamedSpec& named, const Frequencies& f) {
  constexpr std::int64_t kColumns = 256;
  const std::int64_t step = std::max<std::int64_t>(1, request.length / kColumns);
  const auto value = [&](std::int64_t p, std::int64_t column) {
    const auto at = static_cast<std::size_t>(p);
    return unseen_degrees(f.trained[at], f.used[at], request.train_length, column * step);
  };
  draw::Panel panel;
  panel.title = named.label;
  panel.x.label = "position or distance (tokens)";
  panel.y.label = "pair p";
  panel.y_down = true;
  panel.map =
      map_of(std::ssize(f.used), (request.length + step - 1) / step, draw::ColorMap::kSequential,
             "from the nearest trained angle (degrees)", value);
  panel.map->x_step = static_cast<double>(step);
  panel.map->masked = "angle seen in training";
  panel.rules.push_back({static_cast<double>(request.train_length), "trained", true});
  panel.curves.push_back(first_unseen(request, f));
  const auto& cells = panel.map->values;
  if (std::all_of(cells.begin(), cells.end(), [](float v) { return std::isnan(v); })) {
    panel.notes.push_back({static_cast<double>(request.length) * 0.3,
                           static_cast<double>(f.used.size()) / 2.0,
                           "every angle was seen in training"});
  }
  return panel;
}

// One scale for all maps, from 0 to the largest of their values.
void share_scale(std::vector<draw::Panel>& panels) {
  double high = 0.0;
  for (const draw::Panel& panel : panels) {
    const draw::Range range = draw::shown_range(*panel.map);
    high = std::max(high, range.high);
  }
  for (draw::Panel& panel : panels) {
    panel.map->low = 0.0;
    panel.map->high = high;
  }
}

draw::Curve turns_curve(std::string name, const Frequencies& f, const std::vector<double>& list,
                        std::int64_t length, int color) {
  const auto turns = [&](std::int64_t p) {
    const double value = static_cast<double>(length) * list[p] / kTurn;
    return value > 0.0 ? value : kHidden;
  };
  return curve_over(std::move(name), pair_indices(f), turns, color);
}

// Turns made over the whole length: below 1, a pair has seen only a part of its circle.
draw::Panel turns_panel(const PlotRequest& request, const std::vector<NamedSpec>& specs,
                        const std::vector<Frequencies>& lists) {
  draw::Panel panel;
  panel.title = "largest angle";
  panel.x.label = "pair p";
  panel.y.label = "largest angle (turns)";
  panel.y.log = true;
  int color = 0;
  for (std::size_t s = 0; s < specs.size(); ++s) {
    panel.curves.push_back(turns_curve(fmt::format("{} at {}", specs[s].label, request.length),
                                       lists[s], lists[s].used, request.length, color++));
  }
  draw::Curve trained = turns_curve(fmt::format("trained at {}", request.train_length), lists[0],
                                    lists[0].trained, request.train_length, color);
  trained.stroke = draw::Stroke::kDashed;
  panel.curves.push_back(std::move(trained));
  panel.rules.push_back({1.0, "full circle", false});
  return panel;
}

}  // namespace

draw::Figure plot_extrapolation(const PlotRequest& request) {
  const std::vector<NamedSpec> specs = read_specs(request, 3);
  std::vector<Frequencies> lists;
  for (const NamedSpec& named : specs) lists.push_back(frequencies_of(request, named));
  draw::Figure figure;
  figure.title = fmt::format("Angles beyond training: {} tokens after {}", request.length,
                             request.train_length);
  figure.columns = 2;
  for (std::size_t s = 0; s < specs.size(); ++s) {
    figure.panels.push_back(unseen_panel(request, specs[s], lists[s]));
  }
  share_scale(figure.panels);
  figure.panels.push_back(turns_panel(request, specs, lists));
  figure.caption = fmt::format(
      "A pair whose wavelength exceeds the training length has seen only a part of its circle; "
      "painted cells are angles outside that part, in degrees from the nearest seen, and the line "
      "is the first of them. Trained with the default schedule on {} tokens, used as named. {}, "
      "head_dim {}.",
      request.train_length, spec_list(specs), request.head_dim);
  return figure;
}

}  // namespace posenc::plots
