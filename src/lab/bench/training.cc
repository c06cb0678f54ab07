#include "bench/training.h"

#include <algorithm>
#include <cmath>

#include "posenc/encodings/spec.h"

namespace posenc::bench {
namespace {

constexpr double kFloat = 4.0;

// Score matrices that autograd keeps per layer, measured at T 512 (docs/kernels.md): the softmax, and with
// CoPE gates, their sums, two tables of 64-bit indices and what is gathered with them.
double kept_matrices(const Spec& spec) {
  double kept = 1.0;
  for (const Encoding& e : spec.encodings) {
    if (std::holds_alternative<Cope>(e)) kept += 12.0;
  }
  return kept;
}

// Numbers per pair of positions that all samples share: FIRE's hidden units before and after the ReLU, and their
// gradient. Measured at T 2,048: 2.9 times the width.
double shared_numbers(const Spec& spec) {
  double numbers = 0.0;
  for (const Encoding& e : spec.encodings) {
    if (const auto* fire = std::get_if<Fire>(&e)) {
      numbers += 3.0 * static_cast<double>(fire->width);
    }
  }
  return numbers;
}

}  // namespace

std::optional<double> TrainingRow::loss_difference() const {
  if (!ours || !composed) return std::nullopt;
  double worst = 0.0;
  for (std::size_t i = 0; i < std::min(ours->losses.size(), composed->losses.size()); ++i) {
    const double expected = composed->losses[i];
    worst = std::max(worst, std::abs(ours->losses[i] - expected) / std::abs(expected));
  }
  return worst;
}

std::optional<double> TrainingRow::speedup() const {
  if (!ours || !composed) return std::nullopt;
  return ours->tokens_per_s / composed->tokens_per_s;
}

std::vector<TrainingShape> shapes_for(const TrainingShape& shape,
                                      const std::vector<std::int64_t>& lengths,
                                      std::int64_t tokens_per_step) {
  std::vector<TrainingShape> shapes;
  for (const std::int64_t length : lengths) {
    TrainingShape at = shape;
    at.length = length;
    at.batch = std::max<std::int64_t>(1, tokens_per_step / length);
    shapes.push_back(at);
  }
  return shapes;
}

double composed_score_bytes(const std::string& encoding, const TrainingShape& shape) {
  constexpr double kInPassing = 4.0;  // matrices that live for a moment of the backward pass
  const Spec spec = parse_spec(encoding);
  const auto length = static_cast<double>(shape.length);
  const auto layers = static_cast<double>(shape.layers);
  const double matrix = kFloat * static_cast<double>(shape.batch * shape.heads) * length * length;
  return matrix * (layers * kept_matrices(spec) + kInPassing) +
         layers * kFloat * length * length * shared_numbers(spec);
}

}  // namespace posenc::bench
