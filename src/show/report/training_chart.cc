// Training curves: seeds taken together, and many steps made few without losing a spike.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "report/charts.h"
#include "report/words.h"

namespace posenc::report {
namespace {

constexpr std::int64_t kBuckets = 80;  // points of a curve, each of which answers to a pointer

struct Sample {
  std::int64_t step = 0;
  double value = 0.0;
};
using SamplesOf = std::function<std::vector<Sample>(const RunDetails&)>;

struct Bucket {
  double step_sum = 0.0;
  double sum = 0.0;
  double count = 0.0;
  double low = 0.0;
  double high = 0.0;

  void add(const Sample& sample) {
    low = count == 0.0 ? sample.value : std::min(low, sample.value);
    high = count == 0.0 ? sample.value : std::max(high, sample.value);
    step_sum += static_cast<double>(sample.step);
    sum += sample.value;
    count += 1.0;
  }
};

// Where there are few steps, each has its own bucket; else a bucket spans as many as it takes.
draw::Curve curve_of(const std::vector<Sample>& samples) {
  std::map<std::int64_t, Bucket> buckets;
  std::int64_t last = 0;
  for (const Sample& sample : samples) {
    buckets[sample.step];
    last = std::max(last, sample.step);
  }
  const bool many = std::ssize(buckets) > kBuckets;
  buckets.clear();
  for (const Sample& sample : samples) {
    buckets[many ? sample.step * kBuckets / (last + 1) : sample.step].add(sample);
  }
  draw::Curve curve;
  for (const auto& [key, bucket] : buckets) {
    curve.x.push_back(bucket.step_sum / bucket.count);
    curve.y.push_back(bucket.sum / bucket.count);
    curve.low.push_back(bucket.low);
    curve.high.push_back(bucket.high);
  }
  return curve;
}

draw::Panel panel_of(const TaskTable& table, const Details& details, const SeriesColors& colors,
                     const SamplesOf& samples_of) {
  draw::Panel panel;
  panel.x.label = "step";
  for (const Entry& entry : table.entries) {
    std::vector<Sample> samples;
    for (const std::string& path : entry.paths) {
      const auto found = details.find(path);
      if (found == details.end()) continue;
      for (const Sample& sample : samples_of(found->second)) {
        if (std::isfinite(sample.value)) samples.push_back(sample);
      }
    }
    if (samples.empty()) continue;
    draw::Curve curve = curve_of(samples);
    curve.name = series_name(table, entry);
    curve.color = colors.of(curve.name);
    panel.curves.push_back(std::move(curve));
  }
  return panel;
}

// Losses that fall over decades are read on a logarithmic axis.
void choose_loss_axis(draw::Panel& panel) {
  panel.title = "training loss";
  panel.y.label = "loss (nats)";
  const draw::Range range = draw::y_range(panel);
  double lowest = range.high;
  for (const draw::Curve& curve : panel.curves) {
    for (const double y : curve.low) lowest = std::min(lowest, y);
  }
  panel.y.log = lowest > 0.0 && range.high / lowest > 30.0;
  if (panel.y.log) panel.y.low = lowest;
}

void choose_accuracy_axis(draw::Panel& panel, const std::string& title) {
  panel.title = title;
  panel.y = {.label = "accuracy (%)", .low = 0.0, .high = 100.0};
}

std::vector<Sample> losses(const RunDetails& run) {
  std::vector<Sample> out;
  for (const TrainingPoint& p : run.training) out.push_back({p.step, p.loss});
  return out;
}
std::vector<Sample> accuracies(const RunDetails& run) {
  std::vector<Sample> out;
  for (const TrainingPoint& p : run.training) out.push_back({p.step, 100.0 * p.accuracy});
  return out;
}
// What was evaluated during training: in domain first, then train.eval_conditions.
using Condition = std::pair<std::string, std::int64_t>;
std::vector<Condition> conditions_checked(const TaskTable& table, const Details& details) {
  std::vector<Condition> conditions;
  for (const Entry& entry : table.entries) {
    for (const std::string& path : entry.paths) {
      const auto run = details.find(path);
      if (run == details.end()) continue;
      for (const CheckPoint& check : run->second.checks) {
        const Condition condition{check.axis, check.length};
        if (std::find(conditions.begin(), conditions.end(), condition) != conditions.end())
          continue;
        conditions.push_back(condition);
      }
    }
  }
  return conditions;
}
std::vector<Sample> checks(const RunDetails& run, const Condition& condition, Metric metric) {
  std::vector<Sample> out;
  for (const CheckPoint& p : run.checks) {
    if (Condition{p.axis, p.length} == condition) out.push_back({p.step, drawn(p.value, metric)});
  }
  return out;
}

draw::Panel checked_panel(const TaskTable& table, const Details& details,
                          const SeriesColors& colors, const Condition& condition) {
  draw::Panel panel = panel_of(table, details, colors, [&](const RunDetails& run) {
    return checks(run, condition, table.metric);
  });
  panel.title = condition.first == kInDomain
                    ? "held out, at the training length"
                    : fmt::format("{} at length {}", condition.first, condition.second);
  panel.y = metric_axis(table.metric);
  return panel;
}

}  // namespace

std::optional<draw::Figure> training_figure(const TaskTable& table, const Details& details,
                                            const SeriesColors& colors) {
  draw::Figure figure{.title = fmt::format("{}: training", table.task)};
  if (auto loss = panel_of(table, details, colors, losses); !loss.curves.empty()) {
    choose_loss_axis(loss);
    figure.panels.push_back(std::move(loss));
  }
  if (auto accuracy = panel_of(table, details, colors, accuracies); !accuracy.curves.empty()) {
    choose_accuracy_axis(accuracy, "training accuracy");
    figure.panels.push_back(std::move(accuracy));
  }
  for (const Condition& condition : conditions_checked(table, details)) {
    draw::Panel panel = checked_panel(table, details, colors, condition);
    if (!panel.curves.empty()) figure.panels.push_back(std::move(panel));
  }
  if (figure.panels.empty()) return std::nullopt;
  figure.columns = std::min<std::int64_t>(2, std::ssize(figure.panels));
  figure.panel_width = figure.columns == 1 ? 700.0 : 420.0;
  figure.panel_height = 260.0;
  return figure;
}

}  // namespace posenc::report
