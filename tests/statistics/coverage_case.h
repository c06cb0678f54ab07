// Made-up experiments with a known difference between two encodings, to count how often an interval holds it.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "posenc/core/rng.h"
#include "statistics/paired.h"

namespace posenc::testing {

// How the skill of a training is drawn.
struct Trainings {
  double mean = 0.0;        // of an ordinary training
  double spread = 0.0;      // standard deviation
  double shared = 0.0;      // of the spread, the part that goes with the seed's number
  double rare = 0.0;        // the other outcome,
  double rare_rate = 0.0;   // and how often it comes
  bool rare_fails = false;  // it is a run that diverged

  [[nodiscard]] double expected() const {
    return (1.0 - rare_rate) * mean + rare_rate * (rare_fails ? 0.0 : rare);
  }
};

struct Setting {
  std::string name;
  Trainings a;
  Trainings b;
  int rows = 48;
  int positions = 4;    // of a row
  double hardness = 0;  // of a row for both encodings, uniform in +- this
  double liking = 0;    // of a row for one of them, likewise
  Metric metric = Metric::kAccuracy;
  int rows_per_document = 1;

  [[nodiscard]] double truth() const { return a.expected() - b.expected(); }
};

inline std::vector<Setting> coverage_settings() {
  const Trainings skewed{.mean = 1.0, .rare = 0.61, .rare_rate = 0.3};
  const Trainings failing{.mean = 0.95, .rare_rate = 0.2, .rare_fails = true};
  const Metric bits = Metric::kBitsPerByte;
  return {
      {"typical", {0.6, 0.04}, {0.5, 0.04}, 48, 4, 0.15, 0.05},
      {"large seed spread", {0.55, 0.13}, {0.5, 0.05}, 48, 4, 0.02, 0.02},
      {"few rows", {0.5, 0.02}, {0.5, 0.02}, 16, 4, 0.2, 0.2},
      {"rows only", {0.6}, {0.5}, 48, 4, 0.1, 0.25},
      {"seeds correlated", {0.6, 0.05, 0.9}, {0.5, 0.05, 0.9}, 48, 4, 0.1, 0.05},
      {"all nearly right", {1.0}, {0.99}, 64, 1},
      {"bits, documents", {1.9, 0.02}, {2.0, 0.02}, 48, 4, 0.2, 0.05, bits, 4},
      {"skew in both", skewed, skewed},
      {"skew in one", skewed, {skewed.expected(), 0.005}},
      {"failures in both", failing, failing},
      {"failures in one", failing, {failing.expected(), 0.02}},
  };
}

inline std::vector<double> uniform_effects(Rng& rng, int count, double width) {
  std::vector<double> effects;
  for (int i = 0; i < count; ++i) effects.push_back(rng.uniform(-width, width));
  return effects;
}

inline statistics::RowSum draw_row(Rng& rng, const Setting& setting, double level) {
  const auto weight = static_cast<double>(setting.positions);
  if (setting.metric == Metric::kBitsPerByte) {
    return {weight * (level + 0.05 * rng.normal()), weight};
  }
  statistics::RowSum row{0.0, weight};
  for (int i = 0; i < setting.positions; ++i) row.total += rng.uniform() < level ? 1.0 : 0.0;
  return row;
}

inline statistics::RunScores draw_run(Rng& rng, const Setting& setting, const Trainings& trainings,
                                      double of_seed, const std::vector<double>& of_document) {
  statistics::RunScores run;
  const bool rare = rng.uniform() < trainings.rare_rate;
  const double own = std::sqrt(1.0 - trainings.shared * trainings.shared);
  const double ordinary =
      trainings.mean + trainings.spread * (trainings.shared * of_seed + own * rng.normal());
  run.failed = rare && trainings.rare_fails;
  if (run.failed) return run;
  for (int row = 0; row < setting.rows; ++row) {
    const auto document = static_cast<std::size_t>(row / setting.rows_per_document);
    run.rows.push_back(
        draw_row(rng, setting, (rare ? trainings.rare : ordinary) + of_document[document]));
  }
  return run;
}

// Two encodings with so many seeds each.
inline statistics::ConditionScores draw_experiment(Rng& rng, const Setting& setting, int seeds) {
  statistics::ConditionScores scores{"", setting.metric, {}, {{"a", {}}, {"b", {}}}};
  const int documents = setting.rows / setting.rows_per_document;
  const std::vector<double> hardness = uniform_effects(rng, documents, setting.hardness);
  std::vector<double> of_seeds;
  for (int seed = 0; seed < seeds; ++seed) of_seeds.push_back(rng.normal());
  for (std::size_t e = 0; e < 2; ++e) {
    std::vector<double> effects = uniform_effects(rng, documents, setting.liking);
    for (std::size_t d = 0; d < effects.size(); ++d) effects[d] += hardness[d];
    for (const double of_seed : of_seeds) {
      scores.encodings[e].runs.push_back(
          draw_run(rng, setting, e == 0 ? setting.a : setting.b, of_seed, effects));
    }
  }
  for (int row = 0; row < setting.rows; ++row) {
    scores.clusters.push_back(static_cast<std::uint32_t>(row / setting.rows_per_document));
  }
  return scores;
}

}  // namespace posenc::testing
