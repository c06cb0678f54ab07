// The positions of a row over which a figure is computed, and the groups of positions for curves.
//
// A model that fails beyond its trained length L still gets the positions inside it right, so a mean over a
// row of 2 L starts near one half. The headline figure of a longer row is over the positions from L on.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace posenc::runs {

enum class Region { kHeadline, kLastEighth, kAll };

inline constexpr std::array<Region, 3> kRegions = {Region::kHeadline, Region::kLastEighth,
                                                   Region::kAll};
std::string_view region_name(Region region);  // "headline", "last_eighth", "all"

// Positions from begin up to, but not including, end; the first position of a row is 0.
struct PositionRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  [[nodiscard]] bool holds(std::int64_t position) const {
    return begin <= position && position < end;
  }
  bool operator==(const PositionRange&) const = default;
};

// The region of a row of row_length >= 1 tokens, for a model trained on rows of trained_length.
//   kHeadline    from trained_length on; the whole row where it is not longer than that
//   kLastEighth  the last row_length / 8 positions, rounded up
//   kAll         the whole row
PositionRange region_range(Region region, std::int64_t trained_length, std::int64_t row_length);

// Whether a condition asks for more than training showed: a longer row, or rows drawn in another way (a
// sparse Flip-Flop, a dense copy), whatever their length. Tables, rankings and cards go by this.
bool beyond_training(std::int64_t trained_length, std::int64_t row_length,
                     bool out_of_distribution);

// The answers at one position, or over several; positions that are not scored have weight 0.
struct Tally {
  std::uint32_t correct = 0;
  std::uint32_t weight = 0;  // answers scored
  float loss = 0.0F;  // sum of negative log-likelihoods, in nats; infinite where an answer has none

  bool operator==(const Tally&) const = default;
};

// Edges of about 16 buckets of positions, from 0 to row_length: bucket b holds the positions edges[b] <= i <
// edges[b + 1]. The trained length is an edge of every longer row, so no bucket mixes positions inside and
// beyond it. Short rows have fewer buckets; none is empty.
std::vector<std::int64_t> bucket_edges(std::int64_t trained_length, std::int64_t row_length);

// The bucket of a position in [0, edges.back()).
std::size_t bucket_of(std::span<const std::int64_t> edges, std::int64_t position);

}  // namespace posenc::runs
