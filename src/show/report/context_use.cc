#include "report/context_use.h"

#include <algorithm>
#include <cmath>

namespace posenc::report {
namespace {

double loss_of(const Cell& cell) {
  return statistics::mean_over_seeds(cell.headline().points).value;
}

// An axis scores the same bytes at each of its lengths. Those in domain are others, so only figures whose
// intervals are apart differ.
bool same_loss(const Cell& trained, const Cell& longer) {
  const auto& a = trained.headline().interval;
  const auto& b = longer.headline().interval;
  if (trained.axis != longer.axis && a && b) return a->low <= b->high && b->low <= a->high;
  const double loss = loss_of(trained);
  return std::abs(loss_of(longer) - loss) <= kFlatShare * loss;
}

}  // namespace

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

bool keeps_loss(const Entry& entry) {
  bool any = false;
  for (const Cell& cell : entry.cells) {
    if (cell.factor <= 1.0 || cell.n == cell.failed || !cell.schedule.empty()) continue;
    const Cell* trained = entry.cell(cell.axis, 1.0);
    if (trained == nullptr) trained = entry.cell(kInDomain, 1.0);
    if (trained == nullptr || !same_loss(*trained, cell)) return false;
    any = true;
  }
  return any;
}

}  // namespace posenc::report
