// Biases of site 3: matrices of queries and keys, and curves over the distance.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "draw/formula.h"
#include "plots/inputs.h"
#include "plots/kinds.h"
#include "plots/panels.h"

namespace posenc::plots {
namespace {

// The sum of a spec's biases, with parameters at their initial values.
class BiasSum {
 public:
  BiasSum(const PlotRequest& request, const NamedSpec& named)
      : spec_(named.spec), values_(start_values(request, named.spec)) {
    for (const Encoding& encoding : spec_.encodings) {
      if (traits(encoding).site != Site::kBias) refuse_other(request, named);
      std::visit([&]<class E>(const E& e) { look_at(e); }, encoding);
    }
    if (spec_.encodings.empty()) refuse_other(request, named);
  }

  [[nodiscard]] double operator()(std::int64_t head, std::int64_t i, std::int64_t j) const {
    double sum = 0.0;
    for (std::size_t e = 0; e < spec_.encodings.size(); ++e) {
      std::visit(
          [&]<class E>(const E& encoding) {
            if constexpr (BiasEncoding<E>) {
              sum += bias(encoding, values_[e], head, i, j);
            } else if constexpr (PlaneBias<E>) {  // patches in the order of reading
              sum += bias(encoding, values_[e], head, encoding.point({&i, 1}),
                          encoding.point({&j, 1}));
            }
          },
          spec_.encodings[e]);
    }
    return sum;
  }

  [[nodiscard]] bool toeplitz() const { return toeplitz_; }
  // Values jump from entry to entry: heads on top of each other could not be read.
  [[nodiscard]] bool table() const { return table_; }

 private:
  template <class E>
  void look_at(const E& /*encoding*/) {
    toeplitz_ = toeplitz_ && (DistanceBias<E> || E::kTraits.site != Site::kBias);
    table_ = table_ || ReadsEntries<E> || PlaneBias<E>;
  }

  [[noreturn]] static void refuse_other(const PlotRequest& request, const NamedSpec& named) {
    refuse(ErrorKind::kUnsupported, "encodings", "must add a bias to scores for " + request.kind,
           "'" + to_text(named.spec) + "'",
           "take alibi, t5, kerple, fire or relative, or a sum of them");
  }

  const Spec& spec_;
  ref::SpecParameters values_;
  bool toeplitz_ = true;
  bool table_ = false;
};

// From the query's own place up to `length` tokens back, and as far ahead where nothing hides it.
std::vector<std::int64_t> distances(const PlotRequest& request) {
  std::vector<std::int64_t> back = thinned(request.length - 1, 1024);
  if (request.causal) return back;
  std::vector<std::int64_t> all;
  for (auto m = back.rbegin(); m != back.rend(); ++m) {
    if (*m != 0) all.push_back(-*m);
  }
  all.insert(all.end(), back.begin(), back.end());
  return all;
}

// A query in whose row every distance exists.
std::int64_t far_query(const PlotRequest& request) { return request.length - 1; }

void add_head_curves(draw::Panel& panel, const PlotRequest& request, const BiasSum& sum) {
  constexpr std::int64_t kHeads = 4;
  std::vector<std::int64_t> heads = {request.head};
  if (!sum.table()) heads = chosen("head", {}, request.heads, kHeads);
  int color = 0;
  for (const std::int64_t head : heads) {
    const auto value = [&](std::int64_t m) {
      return sum(head, far_query(request), far_query(request) - m);
    };
    draw::Curve curve =
        curve_over(fmt::format("head {}", head), distances(request), value, color++);
    if (sum.table()) curve.stroke = draw::Stroke::kSteps;
    panel.curves.push_back(std::move(curve));
  }
}

// Below its threshold FIRE does not read the query's position: queries there would have one curve.
std::vector<std::int64_t> queries_apart(const PlotRequest& request, const NamedSpec& named) {
  const std::int64_t last = request.length - 1;
  for (const Encoding& encoding : named.spec.encodings) {
    const auto* fire = std::get_if<Fire>(&encoding);
    if (fire == nullptr || fire->init_threshold <= static_cast<double>(last / 4)) continue;
    const auto threshold = static_cast<std::int64_t>(std::min(fire->init_threshold, 1e9));
    return {threshold, 2 * threshold, 4 * threshold};
  }
  return {last / 4, last / 2, last};
}

// FIRE measures distances against the query's own position: a curve per query.
void add_query_curves(draw::Panel& panel, const PlotRequest& request, const NamedSpec& named,
                      const BiasSum& sum) {
  const std::vector<std::int64_t> queries =
      request.positions.empty() ? queries_apart(request, named)
                                : chosen("positions", request.positions, request.length, 0);
  int color = 0;
  for (const std::int64_t i : queries) {
    const std::int64_t last = std::max(i, request.length - 1);
    std::vector<std::int64_t> seen;
    for (const std::int64_t m : distances(request)) {
      if (m <= i && i - m <= last) seen.push_back(m);
    }
    const auto value = [&](std::int64_t m) { return sum(request.head, i, i - m); };
    panel.curves.push_back(curve_over(fmt::format("query at {}", i), seen, value, color++));
  }
}

draw::Panel curves_panel(const PlotRequest& request, const NamedSpec& named) {
  const BiasSum sum(request, named);
  draw::Panel panel;
  panel.title =
      sum.toeplitz() ? named.label : fmt::format("{}, head {}", named.label, request.head);
  panel.x.label = "distance i - j (tokens)";
  panel.y.label = "bias (logits)";
  if (sum.toeplitz()) {
    add_head_curves(panel, request, sum);
  } else {
    add_query_curves(panel, request, named, sum);
  }
  return panel;
}

// Which distances share an entry of T5's table; the entries themselves are learned.
draw::Panel buckets_panel(const PlotRequest& request, const T5& config) {
  draw::Panel panel;
  panel.title = "buckets of " + to_text(Spec{{config}});
  panel.x.label = "distance i - j (tokens)";
  panel.y.label = "bucket (row of the table)";
  draw::Curve curve = curve_over(
      "", distances(request),
      [&](std::int64_t m) { return static_cast<double>(t5_bucket(config, -m)); }, 0);
  curve.stroke = draw::Stroke::kSteps;
  panel.curves.push_back(std::move(curve));
  return panel;
}

const T5* first_t5(const std::vector<NamedSpec>& specs) {
  for (const NamedSpec& named : specs) {
    for (const Encoding& encoding : named.spec.encodings) {
      if (const auto* t5 = std::get_if<T5>(&encoding)) return t5;
    }
  }
  return nullptr;
}

std::string formulas_text(const std::vector<NamedSpec>& specs) {
  std::vector<std::string_view> known;
  std::string text;
  for (const NamedSpec& named : specs) {
    for (const Encoding& encoding : named.spec.encodings) {
      const Traits& t = traits(encoding);
      if (std::find(known.begin(), known.end(), t.name) != known.end()) continue;
      known.push_back(t.name);
      text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", t.name, draw::typeset(t.formula));
    }
  }
  return text;
}

}  // namespace

draw::Figure plot_bias(const PlotRequest& request) {
  const std::vector<NamedSpec> specs = read_specs(request, 6);
  draw::Figure figure;
  figure.title = fmt::format("Biases of head {} of {}", request.head, request.heads);
  for (const NamedSpec& named : specs) {
    const BiasSum sum(request, named);
    const auto value = [&](std::int64_t i, std::int64_t j) {
      return request.causal && j > i ? kHidden : sum(request.head, i, j);
    };
    draw::Heatmap map =
        map_of(request.length, request.length, draw::ColorMap::kDiverging, "bias (logits)", value);
    map.masked = kKeyAfterQuery;
    figure.panels.push_back(matrix_panel(named.label, std::move(map)));
  }
  figure.caption = fmt::format("Added to the score of query i and key j before softmax. {}.{}",
                               formulas_text(specs), parameters_text(request, specs));
  figure.columns = specs.size() == 1 ? 1 : 2;
  figure.panel_width = 320;
  figure.panel_height = 320;
  return figure;
}

draw::Figure plot_bias_curves(const PlotRequest& request) {
  const std::vector<NamedSpec> specs = read_specs(request, 6);
  draw::Figure figure;
  figure.title = fmt::format("Biases against distance, {} heads", request.heads);
  for (const NamedSpec& named : specs) figure.panels.push_back(curves_panel(request, named));
  if (const T5* t5 = first_t5(specs)) figure.panels.push_back(buckets_panel(request, *t5));
  figure.caption = fmt::format(
      "Added to scores before softmax; every panel has a scale of its own. {}. FIRE measures the "
      "distance against the query's position, so it has a curve per query.{}",
      formulas_text(specs), parameters_text(request, specs));
  figure.columns = figure.panels.size() == 1 ? 1 : 2;
  figure.panel_width = 380;
  figure.panel_height = 240;
  return figure;
}

}  // namespace posenc::plots
