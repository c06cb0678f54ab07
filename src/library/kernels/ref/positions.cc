#include "kernels/ref/positions.h"

#include <algorithm>

#include "kernels/ref/checks.h"
#include "kernels/ref/vectors.h"

namespace posenc::ref {

Positions::Positions(const std::string& scope, const AttentionShape& shape,
                     const TokenPositions& given, const Mask& mask) {
  require_at_least(scope, "positions.axes", given.axes, 1);
  const auto resolve = [&](const std::string& key, const std::vector<std::int64_t>& values,
                           std::int64_t tokens, const std::vector<std::int64_t>& places) {
    Side side{tokens, values.empty() ? 1 : given.axes, values};
    for (std::int64_t b = 0; b < shape.batch && values.empty(); ++b) {
      side.values.insert(side.values.end(), places.begin(), places.end());
    }
    require_size(scope, key, side.values.size(), shape.batch * tokens * side.axes, "[B, T, axes]");
    for (const std::int64_t n : side.values) require_exact_position(scope, key, n);
    return side;
  };
  queries_ = resolve("positions.query", given.query, shape.queries, mask.queries().place);
  keys_ = resolve("positions.key", given.key, shape.keys, mask.keys().place);
  axes_ = std::max(queries_.axes, keys_.axes);
}

std::span<const std::int64_t> Positions::query(std::int64_t batch, std::int64_t index) const {
  return vector_at(std::span(queries_.values), batch * queries_.tokens + index, queries_.axes);
}

std::span<const std::int64_t> Positions::key(std::int64_t batch, std::int64_t index) const {
  return vector_at(std::span(keys_.values), batch * keys_.tokens + index, keys_.axes);
}

Lengths Positions::lengths(const Lengths& given) const {
  Lengths lengths = given;
  if (lengths.sequence > 0) return lengths;
  for (const Side* side : {&queries_, &keys_}) {
    for (const std::int64_t n : side->values) lengths.sequence = std::max(lengths.sequence, n + 1);
  }
  return lengths;
}

}  // namespace posenc::ref
