#include "report/context_use.h"

#include <algorithm>

namespace posenc::report {

std::optional<std::int64_t> used_positions(const std::vector<PositionResult>& curve,
                                           std::int64_t trained_length) {
  if (curve.empty()) return std::nullopt;
  std::int64_t used = trained_length;
  double sum = 0.0;  // of the loss at the positions after a bucket
  double count = 0.0;
  for (auto bucket = curve.rbegin(); bucket != curve.rend(); ++bucket) {
    const runs::PositionRange& range = bucket->positions;
    if (range.end > trained_length) continue;
    const bool falls = count > 0.0 && bucket->value > (1.0 + kFlatShare) * sum / count;
    if (falls) break;
    used = range.begin;
    sum += bucket->value * static_cast<double>(range.end - range.begin);
    count += static_cast<double>(range.end - range.begin);
  }
  used = std::max(used, curve.front().positions.end);
  return 2 * used <= trained_length ? std::optional(used) : std::nullopt;
}

}  // namespace posenc::report
