#include "kernels/ref/mask.h"

#include <algorithm>

#include "kernels/key_mask.h"
#include "kernels/ref/checks.h"

namespace posenc::ref {
namespace {

using Cumulative = std::vector<std::int64_t>;

void check_cumulative(const std::string& scope, const std::string& key,
                      const Cumulative& cumulative, std::int64_t tokens) {
  const bool fine = cumulative.size() >= 2 && cumulative.front() == 0 &&
                    cumulative.back() == tokens &&
                    std::is_sorted(cumulative.begin(), cumulative.end());
  if (fine) return;
  throw Error(
      ErrorKind::kOutOfRange,
      {.scope = scope,
       .key = key,
       .rule = "must rise from 0 to the number of tokens (" + std::to_string(tokens) + ")",
       .value = cumulative.empty() ? "nothing" : "an end of " + std::to_string(cumulative.back()),
       .hint = ""});
}

Places places_of(const Cumulative& cumulative) {
  Places places;
  for (std::size_t s = 0; s + 1 < cumulative.size(); ++s) {
    for (std::int64_t t = cumulative[s]; t < cumulative[s + 1]; ++t) {
      places.sequence.push_back(static_cast<std::int64_t>(s));
      places.place.push_back(t - cumulative[s]);
    }
  }
  return places;
}

std::int64_t length_of(const Cumulative& cumulative, std::int64_t sequence) {
  const auto s = static_cast<std::size_t>(sequence);
  return cumulative[s + 1] - cumulative[s];
}

void check_key_mask(const std::string& scope, const std::vector<std::uint8_t>& mask) {
  const std::span<const std::uint8_t> entries(mask);
  const auto wrong = first_not_a_flag(entries);
  if (wrong == entries.end()) return;
  throw Error(ErrorKind::kOutOfRange, {.scope = scope,
                                       .key = "key_mask",
                                       .rule = "must be 1, or 0 for padding,",
                                       .value = std::to_string(*wrong),
                                       .hint = ""});
}

// The given lengths, those of the other side where that is allowed, or one sequence.
Cumulative lengths_or(const Cumulative& given, const Cumulative& other, bool same_tokens,
                      std::int64_t tokens) {
  if (!given.empty()) return given;
  if (other.empty()) return {0, tokens};
  return same_tokens ? other : Cumulative{};
}

}  // namespace

Mask::Mask(const std::string& scope, const AttentionShape& shape, const Masking& masking)
    : shape_(shape), masking_(masking) {
  require_at_least(scope, "window_left", masking.window_left, -1);
  require_at_least(scope, "window_right", masking.window_right, -1);
  if (!masking.key_mask.empty()) {
    require_size(scope, "key_mask", masking.key_mask.size(), shape.batch * shape.keys, "[B, Tk]");
    check_key_mask(scope, masking.key_mask);
  }
  const bool same = shape.queries == shape.keys;
  const Cumulative queries = lengths_or(masking.cu_queries, masking.cu_keys, same, shape.queries);
  const Cumulative keys = lengths_or(masking.cu_keys, masking.cu_queries, same, shape.keys);
  check_cumulative(scope, "cu_queries", queries, shape.queries);
  check_cumulative(scope, "cu_keys", keys, shape.keys);
  require_size(scope, "cu_keys", keys.size(), std::ssize(queries), "as cu_queries");
  queries_ = places_of(queries);
  keys_ = places_of(keys);
  for (std::size_t i = 0; i < queries_.place.size(); ++i) {
    const std::int64_t s = queries_.sequence[i];
    queries_.place[i] += length_of(keys, s) - length_of(queries, s);
  }
}

bool Mask::sees(std::int64_t batch, std::int64_t query, std::int64_t key) const {
  const auto i = static_cast<std::size_t>(query);
  const auto j = static_cast<std::size_t>(key);
  if (queries_.sequence[i] != keys_.sequence[j]) return false;
  const auto slot = static_cast<std::size_t>(batch * shape_.keys + key);
  if (!masking_.key_mask.empty() && masking_.key_mask[slot] == 0) return false;
  const std::int64_t n = queries_.place[i];
  const std::int64_t m = keys_.place[j];
  if (masking_.causal && m > n) return false;
  // Differences of places: a window may be as large as its type allows.
  if (masking_.window_left >= 0 && n - m > masking_.window_left) return false;
  return masking_.window_right < 0 || m - n <= masking_.window_right;
}

std::vector<bool> Mask::row(std::int64_t batch, std::int64_t query) const {
  std::vector<bool> visible;
  for (std::int64_t key = 0; key < shape_.keys; ++key) visible.push_back(sees(batch, query, key));
  return visible;
}

std::vector<std::int64_t> offset_positions(std::span<const std::int64_t> offsets,
                                           std::int64_t tokens) {
  std::vector<std::int64_t> positions;
  for (const std::int64_t offset : offsets) {
    for (std::int64_t t = 0; t < tokens; ++t) positions.push_back(offset + t);
  }
  return positions;
}

std::vector<std::int64_t> packed_positions(std::span<const std::int64_t> cumulative) {
  const Cumulative lengths(cumulative.begin(), cumulative.end());
  check_cumulative("packed_positions", "cumulative", lengths, lengths.empty() ? 0 : lengths.back());
  return places_of(lengths).place;
}

}  // namespace posenc::ref
