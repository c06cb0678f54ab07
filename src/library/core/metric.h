// Metrics of runs, with the properties that tables, charts and tests need.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "posenc/core/fields.h"

namespace posenc {

enum class Metric { kAccuracy, kError, kBitsPerByte, kTokensPerSecond, kBitsPerToken };
// As configs and results.json write them.
constexpr std::array<std::string_view, 5> enum_names(Metric /*tag*/) {
  return {"accuracy", "error", "bits_per_byte", "tokens_per_s", "bits_per_token"};
}

struct MetricTraits {
  std::string_view title = {};  // of a column or an axis: "accuracy in %"
  std::string_view unit = {};   // of a printed difference: "points"
  double scale = 1.0;           // from a value to that unit: 100 for shares
  bool higher_better = true;
  bool share = false;  // of answers: it has a chance level and a threshold
  // What a diverged or failed run counts as. Nothing for an unbounded metric, whose worst value does
  // not exist: any number in its place would decide the mean.
  std::optional<double> worst = {};
};

constexpr MetricTraits traits_of(Metric metric) {
  constexpr std::array<MetricTraits, 5> kTraits = {{
      {"accuracy in %", "points", 100.0, true, true, 0.0},
      {"error in %", "points of error", 100.0, false, true, 1.0},
      {"bits per byte", "bits per byte", 1.0, false, false, std::nullopt},
      {"tokens/s", "tokens/s", 1.0, true, false, std::nullopt},
      {"bits per token", "bits per token", 1.0, false, false, std::nullopt},
  }};
  return kTraits[static_cast<std::size_t>(metric)];
}
// Of text: the mean of losses, in which no answer is right or wrong.
constexpr bool in_bits(Metric metric) {
  return metric == Metric::kBitsPerByte || metric == Metric::kBitsPerToken;
}
constexpr std::string_view name_of(Metric metric) { return enum_name(metric); }

}  // namespace posenc
