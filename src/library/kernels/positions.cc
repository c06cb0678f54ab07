#include "posenc/kernels/positions.h"

#include <algorithm>

#include "posenc/encodings/common.h"

namespace posenc {

std::int64_t PositionsView::at(std::int64_t batch, std::int64_t token,
                               std::int64_t axis) const noexcept {
  if (ids != nullptr) {
    const std::int64_t index = batch * batch_stride + token * token_stride + axis * axis_stride;
    return ids_are_64_bit ? static_cast<const std::int64_t*>(ids)[index]
                          : static_cast<const std::int32_t*>(ids)[index];
  }
  if (!offsets.empty()) return offsets[batch] + token;
  if (!cumulative.empty()) {
    return token - *(std::upper_bound(cumulative.begin(), cumulative.end(), token) - 1);
  }
  return token;
}

PositionsView::Range PositionsView::range(std::int64_t batches, std::int64_t tokens,
                                          std::int64_t axes) const noexcept {
  if (ids == nullptr && offsets.empty()) return {0, tokens - 1};  // packed: not beyond that
  if (ids == nullptr) {
    const auto [first, last] = std::minmax_element(offsets.begin(), offsets.end());
    return {*first, *last + tokens - 1};
  }
  Range found{at(0, 0, 0), at(0, 0, 0)};
  for (std::int64_t b = 0; b < batches; ++b) {
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int64_t axis = 0; axis < axes; ++axis) {
        const std::int64_t position = at(b, t, axis);
        found.least = std::min(found.least, position);
        found.most = std::max(found.most, position);
      }
    }
  }
  return found;
}

Status PositionsView::check(const char* name, std::int64_t batches,
                            std::int64_t tokens) const noexcept {
  const int forms =
      (ids != nullptr ? 1 : 0) + (offsets.empty() ? 0 : 1) + (cumulative.empty() ? 0 : 1);
  if (forms > 1) {
    return Status::format(StatusCode::kInvalidArgument,
                          "[%s] positions must be given in one form but got %d", name, forms);
  }
  if (!offsets.empty() && std::ssize(offsets) != batches) {
    return Status::format(StatusCode::kInvalidArgument,
                          "[%s] offsets must have one entry per sequence (%lld) but got %zu", name,
                          static_cast<long long>(batches), offsets.size());
  }
  if (cumulative.empty()) return {};
  if (cumulative.front() != 0 || cumulative.back() != tokens ||
      !std::is_sorted(cumulative.begin(), cumulative.end())) {
    return Status::format(StatusCode::kInvalidArgument,
                          "[%s] cumulative must rise from 0 to the number of tokens (%lld) but got "
                          "%lld .. %lld",
                          name, static_cast<long long>(tokens),
                          static_cast<long long>(cumulative.front()),
                          static_cast<long long>(cumulative.back()));
  }
  return {};
}

Status PositionsView::check_values(const char* op, const char* name, std::int64_t batches,
                                   std::int64_t tokens, std::int64_t axes) const noexcept {
  if ((ids == nullptr && offsets.empty()) || batches == 0 || tokens == 0) return {};
  // Offsets first by themselves: their sums with tokens must not overflow.
  Range found{0, 0};
  for (const std::int64_t offset : offsets) {
    if (!is_exact_position(offset)) found = {offset, offset};
  }
  if (found.least == 0) found = range(batches, tokens, axes);
  const std::int64_t worst = is_exact_position(found.least) ? found.most : found.least;
  if (is_exact_position(worst)) return {};
  return Status::format(StatusCode::kOutOfRange, "[%s] %s %.*s but got %lld", op, name,
                        static_cast<int>(kPositionRule.size()), kPositionRule.data(),
                        static_cast<long long>(worst));
}

}  // namespace posenc
