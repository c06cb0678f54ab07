#include "statistics/findings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <span>

#include "statistics/finding_words.h"

namespace posenc::statistics {
namespace {

using Indices = std::vector<std::size_t>;

constexpr std::size_t kListed = 3;  // margins in one sentence; of more, the closest is told

// One condition of a table, and the words for it.
class Teller {
 public:
  Teller(const TestedTable& table, std::size_t condition)
      : table_(table), index_(condition), condition_(table.conditions()[condition]) {}

  [[nodiscard]] std::string leader_sentence(const Indices& order) const;
  [[nodiscard]] std::string reference_sentence(const Indices& order, std::size_t reference) const;
  [[nodiscard]] std::string few_seeds_sentence() const;
  [[nodiscard]] bool any_separated(const Indices& among) const;

 private:
  [[nodiscard]] const std::string& name(std::size_t encoding) const {
    return condition_.encodings[encoding].encoding;
  }
  [[nodiscard]] std::vector<std::string> names(const Indices& encodings) const;
  [[nodiscard]] std::string margin(std::size_t better, std::size_t worse) const;
  [[nodiscard]] std::string margins(std::size_t fixed, const Indices& others, bool ahead) const;
  [[nodiscard]] std::string seeds(const Indices& encodings) const;
  [[nodiscard]] std::string level_sentence(const Indices& order) const;
  [[nodiscard]] std::string lead_over_some(std::size_t first, const Indices& behind,
                                           const Indices& level) const;

  const TestedTable& table_;
  std::size_t index_;
  const ConditionScores& condition_;
};

std::vector<std::string> Teller::names(const Indices& encodings) const {
  std::vector<std::string> result;
  for (const std::size_t encoding : encodings) result.push_back(name(encoding));
  return result;
}

std::string Teller::margin(std::size_t better, std::size_t worse) const {
  const std::size_t pairs =
      condition_.encodings[better].runs.size() * condition_.encodings[worse].runs.size();
  return margin_text(table_.test(index_, better, worse), condition_, pairs);
}

// "rope by 92 points [85, 98] and none by 40 points [30, 50]"; names alone and the closest for many.
std::string Teller::margins(std::size_t fixed, const Indices& others, bool ahead) const {
  const auto one = [&](std::size_t other) {
    return ahead ? margin(other, fixed) : margin(fixed, other);
  };
  std::vector<std::string> parts;
  for (const std::size_t other : others) parts.push_back(name(other) + " " + one(other));
  if (others.size() <= kListed) return list_text(parts);
  const std::size_t closest = ahead ? others.back() : others.front();
  return fmt::format("{} (the closest, {}, {})", list_text(names(others)), name(closest),
                     one(closest));
}

std::string Teller::seeds(const Indices& encodings) const {
  std::set<std::size_t> counts;
  for (const std::size_t e : encodings) counts.insert(condition_.encodings[e].runs.size());
  return counts.size() == 1 ? fmt::format("{} seeds", *counts.begin())
                            : fmt::format("{} to {} seeds", *counts.begin(), *counts.rbegin());
}

bool Teller::any_separated(const Indices& among) const {
  for (const std::size_t a : among) {
    for (const std::size_t b : among) {
      if (a < b && table_.test(index_, a, b).separated) return true;
    }
  }
  return false;
}

std::string Teller::level_sentence(const Indices& order) const {
  const Indices others(order.begin() + 1, order.end());
  if (any_separated(order)) {
    return fmt::format("{} comes first {}, but nothing separates it from {}, {}.",
                       name(order.front()), condition_.place, list_text(names(others)),
                       seeds(order));
  }
  if (order.size() == 2) {
    return fmt::format("No clear difference {} between {}, {}.", condition_.place,
                       list_text(names(order)), seeds(order));
  }
  return fmt::format("No clear difference {}: nothing separates {}, {}.", condition_.place,
                     list_text(names(order)), seeds(order));
}

std::string Teller::lead_over_some(std::size_t first, const Indices& behind,
                                   const Indices& level) const {
  Indices all = behind;
  all.push_back(first);
  all.insert(all.end(), level.begin(), level.end());
  const std::string rest =
      level.empty() ? "" : fmt::format("; nothing separates it from {}", list_text(names(level)));
  return fmt::format("{} is ahead {} of {}, {}{}{}.", name(first), condition_.place,
                     margins(first, behind, false), seeds(all), direction_text(condition_.metric),
                     rest);
}

std::string Teller::leader_sentence(const Indices& order) const {
  const std::size_t first = order.front();
  Indices behind;
  Indices level;
  for (const std::size_t other : std::span(order).subspan(1)) {
    (table_.ahead(index_, first, other) ? behind : level).push_back(other);
  }
  if (behind.empty()) return level_sentence(order);
  if (order.size() == 2) {
    return fmt::format("{} is ahead of {} {} {}, {}{}.", name(first), name(order[1]),
                       condition_.place, margin(first, order[1]), seeds(order),
                       direction_text(condition_.metric));
  }
  return lead_over_some(first, behind, level);
}

// Encodings other than the first, which has its own sentence.
std::string Teller::reference_sentence(const Indices& order, std::size_t reference) const {
  Indices better;
  Indices worse;
  Indices level;
  for (const std::size_t e : std::span(order).subspan(1)) {
    if (e == reference) continue;
    const PairTest test = table_.test(index_, e, reference);
    (!test.separated ? level : test.first_ahead ? better : worse).push_back(e);
  }
  std::vector<std::string> parts;
  if (!better.empty()) parts.push_back("ahead: " + margins(reference, better, true));
  if (!worse.empty()) parts.push_back("behind: " + margins(reference, worse, false));
  if (!level.empty()) parts.push_back("no clear difference: " + list_text(names(level)));
  if (parts.empty()) return "";
  return fmt::format("Against {} {}, {}{}.", name(reference), condition_.place,
                     fmt::join(parts, "; "), direction_text(condition_.metric));
}

std::string Teller::few_seeds_sentence() const {
  const MetricTraits metric = traits_of(condition_.metric);
  std::vector<std::string> parts;
  for (const EncodingScores& encoding : condition_.encodings) {
    if (encoding.runs.empty() || encoding.runs.size() >= kFewestSeeds) continue;
    std::vector<std::string> points;
    for (const double value : run_values(encoding, condition_.metric)) {
      points.push_back(fmt::format("{:.4g}", value * metric.scale));
    }
    parts.push_back(fmt::format("{} ({})", encoding.encoding, fmt::join(points, ", ")));
  }
  if (parts.empty()) return "";
  return fmt::format("Too few seeds for a claim {}, {} are needed: {}.", condition_.place,
                     kFewestSeeds, list_text(parts));
}

void add(std::vector<Finding>& findings, const std::string& place, const std::string& text) {
  const bool said = std::any_of(findings.begin(), findings.end(),
                                [&](const Finding& f) { return f.text == text; });
  if (!text.empty() && !said) findings.push_back({place, text});
}

void tell_condition(const TestedTable& table, std::size_t condition, const std::string& reference,
                    std::vector<Finding>& findings) {
  const ConditionScores& scores = table.conditions()[condition];
  const Teller teller(table, condition);
  const Indices order = table.order(condition);
  if (order.size() > 1) {
    add(findings, scores.place, teller.leader_sentence(order));
    const auto found = std::find_if(order.begin() + 1, order.end(), [&](std::size_t e) {
      return scores.encodings[e].encoding == reference;
    });
    if (found != order.end() && teller.any_separated(order)) {
      add(findings, scores.place, teller.reference_sentence(order, *found));
    }
  }
  add(findings, scores.place, teller.few_seeds_sentence());
}

void tell_table(const TestedTable& table, std::vector<Finding>& findings) {
  std::size_t fewest = kManySeeds;
  for (std::size_t c = 0; c < table.conditions().size(); ++c) {
    const ConditionScores& scores = table.conditions()[c];
    for (const EncodingScores& encoding : scores.encodings) {
      if (encoding.same_runs) continue;  // their failures are told once
      add(findings, "", failure_text(encoding, scores.metric));
    }
    const Indices order = table.order(c);
    if (!Teller(table, c).any_separated(order)) continue;
    for (const std::size_t e : order) fewest = std::min(fewest, scores.encodings[e].runs.size());
  }
  if (fewest < kManySeeds) add(findings, "", unseen_text(fewest));
}

// The most runs that an encoding has anywhere.
std::size_t most_runs(const TestedTable& table) {
  std::size_t most = 0;
  for (const ConditionScores& condition : table.conditions()) {
    for (const EncodingScores& encoding : condition.encodings) {
      most = std::max(most, encoding.runs.size());
    }
  }
  return most;
}

// Once for a table of several conditions, whose cells list the seeds.
std::string few_everywhere_text(std::size_t most) {
  return fmt::format("Too few seeds for any claim: {} are needed, no encoding has more than {}.",
                     kFewestSeeds, most);
}

}  // namespace

std::vector<Finding> findings(const TestedTable& table, const FindingOptions& options) {
  std::vector<Finding> result;
  const std::size_t most = most_runs(table);
  const bool few_everywhere = table.conditions().size() > 1 && most > 0 && most < kFewestSeeds;
  if (few_everywhere) add(result, "", few_everywhere_text(most));
  for (std::size_t c = 0; c < table.conditions().size() && !few_everywhere; ++c) {
    tell_condition(table, c, options.reference, result);
  }
  tell_table(table, result);
  return result;
}

}  // namespace posenc::statistics
