#include <algorithm>
#include <functional>
#include <limits>
#include <map>

#include "report/compare.h"

namespace posenc::report {
namespace {

constexpr std::uint64_t kSeed = 20240229;  // of the resampled tasks: the same table twice

// One competition: the figure of each encoding in one variant of one task.
struct Race {
  std::map<std::string, double> figures;
  bool higher_better = true;
};

using Figure = std::function<std::optional<double>(const Entry&)>;

Race race_of(const TaskTable& table, std::size_t variant, const Figure& figure) {
  Race race{.higher_better = runs::higher_is_better(table.metric)};
  for (const Entry& entry : table.entries) {
    if (entry.variant != variant) continue;
    if (const auto value = figure(entry)) race.figures.emplace(entry.encoding, *value);
  }
  return race;
}

std::vector<Race> in_domain_races(const std::vector<TaskTable>& tasks) {
  std::vector<Race> races;
  for (const TaskTable& table : tasks) {
    for (std::size_t variant = 0; variant < table.variants.size(); ++variant) {
      races.push_back(race_of(table, variant, [](const Entry& entry) -> std::optional<double> {
        const Cell* cell = entry.cell(kInDomain, 1);
        return cell == nullptr ? std::nullopt : std::optional(cell->estimate.value);
      }));
    }
  }
  return races;
}

std::vector<Race> extrapolation_races(const std::vector<TaskTable>& tasks) {
  std::vector<Race> races;
  for (const TaskTable& table : tasks) {
    for (std::size_t variant = 0; variant < table.variants.size(); ++variant) {
      for (const std::string& axis : table.axes) {
        races.push_back(race_of(
            table, variant, [&](const Entry& entry) { return extrapolation(table, entry, axis); }));
      }
    }
  }
  return races;
}

// Races without a competitor say nothing; encodings that miss one of the others are not ranked.
std::optional<Ranking> ranking(const std::string& what, std::vector<Race> races) {
  std::erase_if(races, [](const Race& race) { return race.figures.size() < 2; });
  if (races.size() < 2) return std::nullopt;
  Ranking result{.what = what, .tasks = races.size()};
  for (const auto& entry : races.front().figures) {
    const std::string& encoding = entry.first;
    const bool everywhere = std::all_of(races.begin(), races.end(), [&](const Race& race) {
      return race.figures.contains(encoding);
    });
    if (everywhere) result.encodings.push_back(encoding);
  }
  if (result.encodings.size() < 2) return std::nullopt;
  std::vector<std::vector<double>> ranks;
  for (const Race& race : races) {
    std::vector<double> figures;
    for (const std::string& encoding : result.encodings) {
      figures.push_back(race.figures.at(encoding));
    }
    ranks.push_back(runs::ranks(figures, race.higher_better));
  }
  result.reciprocal_rank = runs::mean_reciprocal_ranks(ranks, kSeed);
  return result;
}

}  // namespace

std::optional<double> extrapolation(const TaskTable& table, const Entry& entry,
                                    const std::string& axis) {
  double sum = 0.0;
  double count = 0.0;
  for (const double factor : table.factors) {
    const bool measured =
        std::any_of(table.entries.begin(), table.entries.end(),
                    [&](const Entry& e) { return e.cell(axis, factor) != nullptr; });
    if (factor <= 1 || !measured) continue;
    const Cell* cell = entry.cell(axis, factor);
    sum += cell == nullptr ? std::numeric_limits<double>::quiet_NaN() : cell->estimate.value;
    ++count;
  }
  return count > 0.0 ? std::optional(sum / count) : std::nullopt;
}

std::vector<Ranking> rank_encodings(const std::vector<TaskTable>& tasks) {
  std::vector<Ranking> rankings;
  for (auto& r : {ranking("in domain", in_domain_races(tasks)),
                  ranking("extrapolation", extrapolation_races(tasks))}) {
    if (r) rankings.push_back(*r);
  }
  return rankings;
}

}  // namespace posenc::report
