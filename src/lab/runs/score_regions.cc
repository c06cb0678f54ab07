#include "runs/score_regions.h"

#include <algorithm>

namespace posenc::runs {
namespace {

constexpr std::int64_t kBuckets = 16;

// Appends the ends of so many buckets of nearly equal size, at most one per position.
void append_edges(std::vector<std::int64_t>& edges, PositionRange range, std::int64_t buckets) {
  const std::int64_t length = range.end - range.begin;
  const std::int64_t count = std::clamp<std::int64_t>(buckets, 1, length);
  for (std::int64_t i = 1; i <= count; ++i) edges.push_back(range.begin + length * i / count);
}

}  // namespace

std::string_view region_name(Region region) {
  switch (region) {
    case Region::kHeadline:
      return "headline";
    case Region::kLastEighth:
      return "last_eighth";
    case Region::kAll:
      break;
  }
  return "all";
}

PositionRange region_range(Region region, std::int64_t trained_length, std::int64_t row_length) {
  if (region == Region::kLastEighth) return {row_length - (row_length + 7) / 8, row_length};
  const bool longer = region == Region::kHeadline && row_length > trained_length;
  return {longer ? trained_length : 0, row_length};
}

bool beyond_training(std::int64_t trained_length, std::int64_t row_length,
                     bool out_of_distribution) {
  return out_of_distribution || row_length > trained_length;
}

std::vector<std::int64_t> bucket_edges(std::int64_t trained_length, std::int64_t row_length) {
  std::vector<std::int64_t> edges = {0};
  if (row_length <= trained_length) {
    append_edges(edges, {0, row_length}, kBuckets);
    return edges;
  }
  // Shares by length, at least one bucket on either side of the trained length.
  const std::int64_t inside =
      std::clamp<std::int64_t>(kBuckets * trained_length / row_length, 1, kBuckets - 1);
  append_edges(edges, {0, trained_length}, inside);
  append_edges(edges, {trained_length, row_length}, kBuckets - inside);
  return edges;
}

std::size_t bucket_of(std::span<const std::int64_t> edges, std::int64_t position) {
  const auto above = std::upper_bound(edges.begin(), edges.end(), position);
  return static_cast<std::size_t>(above - edges.begin()) - 1;
}

}  // namespace posenc::runs
