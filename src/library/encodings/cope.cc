#include "posenc/encodings/cope.h"

#include <algorithm>
#include <cmath>

#include "encodings/score_formulas.h"
#include "encodings/shape_checks.h"
#include "encodings/tables.h"
#include "posenc/encodings/alibi.h"

namespace posenc {
namespace {

// Where a fractional position falls in the table. floor and floor + 1, never ceil: at whole numbers
// the weight is 0 and the derivative is that of the interval above.
struct Interval {
  std::size_t low;
  std::size_t high;
  double weight;
};

Interval interval_of(const Cope& config, double position) {
  const auto last = static_cast<std::size_t>(config.npos_max - 1);
  const double low = std::floor(position);
  const auto f = static_cast<std::size_t>(position >= 0.0 ? low : 0.0);  // NaN has no place
  return {f, std::min(f + 1, last), position - low};
}

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

}  // namespace

void validate(const Cope& config, const ModelShape& shape) {
  if (config.gates_see_bias && config.gate_source == Cope::GateSource::kOpen) {
    throw Error(ErrorKind::kConflict, {.scope = "cope",
                                       .key = "gates_see_bias",
                                       .rule = "must be false with gate_source=open",
                                       .value = "true",
                                       .hint = "open gates use no vectors"});
  }
  require_positive("cope", "head_dim", shape.head_dim);
  require_positive("cope", "heads", shape.heads);
}

std::vector<InputInfo> token_inputs(const Cope& config, const ModelShape& shape) {
  if (config.gate_source != Cope::GateSource::kSeparate) return {};
  return {{.name = "gate_k",
           .heads = InputInfo::Heads::kKey,
           .channels = shape.head_dim,
           .projection = "gate_proj"}};
}

std::vector<ParameterInfo> parameters(const Cope& config, const ModelShape& shape) {
  if (config.variant == Cope::Variant::kInterpolate) {
    return {table_parameter("pos_emb", {shape.head_dim, config.npos_max}, {})};
  }
  std::vector<double> start = alibi_slopes(Alibi{}, shape.heads);
  for (double& m : start) m = -m;
  return {
      table_parameter("m", {shape.heads},
                      {.kind = Init::Kind::kValues, .a = 0, .b = 0, .values = std::move(start)})};
}

CopeRow cope_positions(const Cope& config, std::span<const double> gate_logit,
                       const std::vector<bool>& visible) {
  const std::size_t keys = gate_logit.size();
  const auto last = static_cast<double>(config.npos_max - 1);
  const bool open = config.gate_source == Cope::GateSource::kOpen;
  CopeRow row{std::vector<double>(keys, 0.0), std::vector<double>(keys, 0.0),
              std::vector<bool>(keys, false)};
  double sum = 0.0;
  for (std::size_t j = keys; j-- > 0;) {
    if (visible[j]) row.gate[j] = open ? 1.0 : sigmoid(gate_logit[j]);
    sum += row.gate[j];
    row.clamped[j] = sum >= last;
    row.position[j] = std::min(sum, last);
  }
  return row;
}

std::vector<double> cope_table(const Cope& config, std::span<const double> parameter,
                               std::span<const double> q, std::int64_t head) {
  if (config.variant == Cope::Variant::kAlibi) return {parameter[head]};
  std::vector<double> table(config.npos_max, 0.0);
  for (std::size_t d = 0; d < q.size(); ++d) {
    const std::span<const double> entries = parameter.subspan(d * table.size(), table.size());
    for (std::size_t p = 0; p < table.size(); ++p) table[p] += q[d] * entries[p];
  }
  return table;
}

void cope_logits(const Cope& config, const CopeRow& row, std::span<const double> table,
                 std::span<double> logits) {
  for (std::size_t j = 0; j < logits.size(); ++j) {
    if (config.variant == Cope::Variant::kAlibi) {
      logits[j] = table[0] * row.position[j];
      continue;
    }
    const Interval s = interval_of(config, row.position[j]);
    logits[j] = formulas::cope_logit(table[s.low],
                                     formulas::cope_slope(table[s.low], table[s.high]), s.weight);
  }
}

void cope_backward(const Cope& config, const CopeRow& row, std::span<const double> table,
                   std::span<const double> dlogits, std::span<double> dtable,
                   std::span<double> dgate_logit) {
  // Gate t is counted by every key j <= t, so its gradient is a prefix sum of the positions' own.
  double dsum = 0.0;
  for (std::size_t j = 0; j < dlogits.size(); ++j) {
    double slope = 0.0;
    if (config.variant == Cope::Variant::kAlibi) {
      dtable[0] += dlogits[j] * row.position[j];
      slope = table[0];
    } else {
      const Interval s = interval_of(config, row.position[j]);
      dtable[s.low] += (1.0 - s.weight) * dlogits[j];
      dtable[s.high] += s.weight * dlogits[j];
      slope = formulas::cope_slope(table[s.low], table[s.high]);
    }
    if (!row.clamped[j]) dsum += dlogits[j] * slope;
    dgate_logit[j] += dsum * formulas::gate_slope(row.gate[j]);
  }
}

}  // namespace posenc
