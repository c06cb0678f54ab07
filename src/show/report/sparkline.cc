#include "report/sparkline.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace posenc::report {
namespace {

constexpr std::array<std::string_view, 8> kBlockLetters = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

// Of `count` equal parts of the scale, the one that a value falls in.
std::size_t part_of(double value, CurveScale scale, std::size_t count) {
  const double span = scale.high - scale.low;
  const double share = span > 0.0 ? (value - scale.low) / span : 0.0;
  const auto parts = static_cast<double>(count);
  return static_cast<std::size_t>(std::clamp(std::floor(share * parts), 0.0, parts - 1.0));
}

std::string letter_for(double value, CurveScale scale, CurveLetters letters) {
  if (!std::isfinite(value)) return " ";
  if (letters == CurveLetters::kDigits) return std::to_string(part_of(value, scale, 10));
  return std::string(kBlockLetters[part_of(value, scale, kBlockLetters.size())]);
}

}  // namespace

bool has_curve(const Cell& cell) { return cell.n > 0 && cell.by_position.size() > 1; }

const Cell* first_curve(const TaskTable& table, const std::string& axis, double factor) {
  for (const Entry& entry : table.entries) {
    const Cell* cell = entry.cell(axis, factor);
    if (cell != nullptr && cell->beyond_training && has_curve(*cell)) return cell;
  }
  return nullptr;
}

std::int64_t trained_length(const Cell& cell) {
  return std::llround(static_cast<double>(cell.length) / cell.factor);
}

CurveScale curve_scale(const TaskTable& table) {
  if (traits_of(table.metric).share) return {};
  std::vector<double> values;
  for (const Entry& entry : table.entries) {
    for (const Cell& cell : entry.cells) {
      for (const PositionResult& bucket : cell.by_position) {
        if (std::isfinite(bucket.value)) values.push_back(bucket.value);
      }
    }
  }
  if (values.empty()) return {};
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return {*low, *high};
}

std::string sparkline(const std::vector<double>& values, const std::vector<PositionResult>& buckets,
                      std::int64_t trained_length, CurveScale scale, CurveLetters letters) {
  std::string line;
  for (std::size_t b = 0; b < values.size(); ++b) {
    const bool first_beyond = buckets[b].positions.begin >= trained_length &&
                              (b == 0 || buckets[b - 1].positions.begin < trained_length);
    if (first_beyond) line += "|";
    line += letter_for(values[b], scale, letters);
  }
  return line;
}

}  // namespace posenc::report
