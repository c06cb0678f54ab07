#include "statistics/tested_table.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace posenc::statistics {
namespace {

// Larger is better, whatever the metric.
double advantage(double difference, Metric metric) {
  return traits_of(metric).higher_better ? difference : -difference;
}

double middle(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return 0.5 * (values[(values.size() - 1) / 2] + values[values.size() / 2]);
}

Difference reversed(Difference difference) {
  difference.value = -difference.value;
  difference.share_won = 1.0 - difference.share_won;
  if (difference.interval) {
    difference.interval = {-difference.interval->high, -difference.interval->low};
  }
  return difference;
}

bool first_is_better(const Difference& difference, Metric metric) {
  return difference.by_rank ? difference.share_won > 0.5
                            : advantage(difference.value, metric) > 0.0;
}

// What encodings are ordered by, larger is better; NaN for too few runs or no scored row.
std::vector<double> standings(const ConditionScores& condition) {
  std::vector<std::vector<double>> values;
  bool finite = true;
  for (const EncodingScores& encoding : condition.encodings) {
    values.push_back(run_values(encoding, condition.metric));
    for (double& value : values.back()) value = advantage(value, condition.metric);
    finite = finite && std::none_of(values.back().begin(), values.back().end(),
                                    [](double value) { return std::isinf(value); });
  }
  std::vector<double> result;
  for (const auto& of_runs : values) {
    const double mean = mean_over_seeds(of_runs).value;  // NaN where a run has no scored row
    const bool usable = of_runs.size() >= kFewestSeeds && !std::isnan(mean);
    result.push_back(!usable ? std::nan("") : finite ? mean : middle(of_runs));
  }
  return result;
}

}  // namespace

std::vector<double> holm(std::span<const double> p_values) {
  std::vector<std::size_t> order(p_values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return p_values[a] < p_values[b]; });
  std::vector<double> adjusted(p_values.size());
  double largest = 0.0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto left = static_cast<double>(order.size() - i);
    largest = std::max(largest, std::min(1.0, left * p_values[order[i]]));
    adjusted[order[i]] = largest;
  }
  return adjusted;
}

TestedTable::TestedTable(std::vector<ConditionScores> conditions)
    : conditions_(std::move(conditions)) {
  for (std::size_t c = 0; c < conditions_.size(); ++c) {
    const auto& encodings = conditions_[c].encodings;
    for (std::size_t first = 0; first < encodings.size(); ++first) {
      for (std::size_t second = first + 1; second < encodings.size(); ++second) {
        pairs_.push_back({c, first, second,
                          paired_difference(conditions_[c], encodings[first], encodings[second])});
      }
    }
  }
  adjust();
}

void TestedTable::adjust() {
  std::vector<double> p_values;
  for (const Pair& pair : pairs_) {
    if (pair.difference.p) p_values.push_back(*pair.difference.p);
  }
  const std::vector<double> adjusted = holm(p_values);
  auto next = adjusted.begin();
  for (Pair& pair : pairs_) {
    if (pair.difference.p) pair.adjusted_p = *next++;
  }
}

bool TestedTable::is_separated(const Pair& pair) const {
  const auto& encodings = conditions_[pair.condition].encodings;
  const std::size_t seeds =
      std::min(encodings[pair.first].runs.size(), encodings[pair.second].runs.size());
  return pair.adjusted_p < (seeds < kManySeeds ? kFewSeedsSignificance : kSignificance);
}

PairTest TestedTable::test(std::size_t condition, std::size_t first, std::size_t second) const {
  const auto found = std::find_if(pairs_.begin(), pairs_.end(), [&](const Pair& pair) {
    return pair.condition == condition && pair.first == std::min(first, second) &&
           pair.second == std::max(first, second);
  });
  PairTest result{.difference = first < second ? found->difference : reversed(found->difference),
                  .adjusted_p = found->adjusted_p,
                  .separated = is_separated(*found)};
  result.first_ahead =
      result.separated && first_is_better(result.difference, conditions_[condition].metric);
  return result;
}

std::vector<std::size_t> TestedTable::order(std::size_t condition) const {
  const std::vector<double> standing = standings(conditions_[condition]);
  std::vector<std::size_t> order;
  for (std::size_t e = 0; e < standing.size(); ++e) {
    if (!std::isnan(standing[e])) order.push_back(e);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return standing[a] > standing[b]; });
  return order;
}

std::optional<std::size_t> TestedTable::backed_best(std::size_t condition) const {
  const std::vector<std::size_t> ordered = order(condition);
  const std::size_t count = conditions_[condition].encodings.size();
  if (count < 2 || ordered.size() < count) return std::nullopt;
  const bool clear = std::all_of(ordered.begin() + 1, ordered.end(), [&](std::size_t other) {
    return ahead(condition, ordered.front(), other);
  });
  return clear ? std::optional(ordered.front()) : std::nullopt;
}

}  // namespace posenc::statistics
