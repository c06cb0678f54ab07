#include "statistics/finding_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace posenc::statistics {
namespace {

constexpr int kMostDigits = 3;

// Enough digits for the interval's half-width, and for a bound near 0 to be seen as not 0.
int digits_for(Interval interval) {
  const double half = 0.5 * (interval.high - interval.low);
  const double nearest = std::min(std::abs(interval.low), std::abs(interval.high));
  const double smallest = nearest > 0.0 ? std::min(half, nearest) : half;
  if (!(smallest > 0.0)) return kMostDigits;
  return std::clamp(-static_cast<int>(std::floor(std::log10(smallest))), 0, kMostDigits);
}

}  // namespace

std::string list_text(const std::vector<std::string>& names) {
  if (names.size() < 2) return names.empty() ? "" : names.front();
  const std::vector<std::string> head(names.begin(), names.end() - 1);
  return fmt::format("{} and {}", fmt::join(head, ", "), names.back());
}

std::string margin_text(const PairTest& test, const ConditionScores& condition, std::size_t pairs) {
  const Difference& difference = test.difference;
  if (!difference.interval) {
    return fmt::format("in {:.3g} of {} pairs of runs",
                       difference.share_won * static_cast<double>(pairs), pairs);
  }
  const MetricTraits metric = traits_of(condition.metric);
  const double scale = metric.higher_better ? metric.scale : -metric.scale;
  const double bounds[] = {scale * difference.interval->low, scale * difference.interval->high};
  const Interval interval{std::min(bounds[0], bounds[1]), std::max(bounds[0], bounds[1])};
  return fmt::format("by {:.{}f} {} [{:.{}f}, {:.{}f}]", scale * difference.value,
                     digits_for(interval), metric.unit, interval.low, digits_for(interval),
                     interval.high, digits_for(interval));
}

std::string direction_text(Metric metric) {
  return traits_of(metric).higher_better ? "" : " (lower is better)";
}

std::string failure_text(const EncodingScores& encoding, Metric metric) {
  const auto failed = std::count_if(encoding.runs.begin(), encoding.runs.end(),
                                    [](const RunScores& run) { return run.is_failure(); });
  if (failed == 0) return "";
  const MetricTraits traits = traits_of(metric);
  const std::string counted =
      traits.worst ? fmt::format("{} as {} {:.0f} %", failed == 1 ? "it counts" : "each counts",
                                 name_of(metric), 100.0 * *traits.worst)
                   : "compared by rank, with no mean and no interval";
  return fmt::format("{} of {} runs of {} diverged or failed; {}.", failed, encoding.runs.size(),
                     encoding.encoding, counted);
}

std::string unseen_text(std::size_t seeds) {
  const double share = 1.0 - std::pow(kSignificance, 1.0 / static_cast<double>(seeds));
  return fmt::format(
      "{} seeds can miss what up to {:.0f} % of trainings do, such as a rare failure.", seeds,
      100.0 * share);
}

}  // namespace posenc::statistics
