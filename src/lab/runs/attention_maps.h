// Data from attention records: maps of heads, distances, and comparisons of two runs.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runs/attention_record.h"

namespace posenc::runs {

struct Map {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<float> values;  // row-major

  [[nodiscard]] float at(std::int64_t row, std::int64_t column) const {
    return values[row * columns + column];
  }
  bool operator==(const Map&) const = default;
};

enum class MapKind { kWeights, kGates, kPositions };
constexpr std::array<std::string_view, 3> enum_names(MapKind /*tag*/) {
  return {"weights", "gates", "positions"};
}

// One head's map. Throws where there is no such layer or head, or the layer has no CoPE.
Map head_map(const AttentionRecord& record, std::int64_t layer, std::int64_t head,
             MapKind kind = MapKind::kWeights);

// How far queries look: the share of all weight at a distance |i - j|, in buckets 0, 1, 2-3, 4-7, ....
struct DistanceHistogram {
  std::vector<std::string> buckets;  // "0", "1", "2-3", ...
  std::vector<double> shares;        // sum to 1, or are all 0 where there is no weight
  double mean = 0.0;
};
DistanceHistogram attended_distance(const AttentionRecord& record, std::int64_t layer,
                                    std::int64_t head);
// The same for a head that looks at all keys that it sees alike.
DistanceHistogram uniform_distance(const AttentionExample& example);

// The share of weight that queries after the instruction give to it; nothing where there is none.
std::optional<double> instruction_share(const AttentionRecord& record, std::int64_t layer,
                                        std::int64_t head);

// What CoPE's gates of the last query add up to, which is the position of the first token. A head that counts opens
// its gates for what it counts; what it does not count leaks through the others, the more the longer the sequence.
struct GateSums {
  std::int64_t open = 0;  // gates above 1/2
  double leak = 0.0;      // the sum of the others
};
// Nothing for a layer without CoPE.
std::optional<GateSums> last_gates(const AttentionRecord& record, std::int64_t layer,
                                   std::int64_t head);

// May query i see key j?
bool is_visible(const AttentionExample& example, std::int64_t query, std::int64_t key);

// Throws unless both are of the same tokens, layers and heads; the error says how they differ. `names`
// are what it calls them.
struct RecordNames {
  std::string first = "the first";
  std::string second = "the second";
};
void require_same_example(const AttentionRecord& first, const AttentionRecord& second,
                          const RecordNames& names = {});

// One head's weights of the second minus those of the first.
Map head_difference(const AttentionRecord& first, const AttentionRecord& second, std::int64_t layer,
                    std::int64_t head);

// How differently a head of two models looks at the same tokens: means over queries.
struct Divergence {
  std::int64_t layer = 0;
  std::int64_t head = 0;
  double total_variation = 0.0;  // 0 (alike) to 1: half of the summed differences
  double jensen_shannon = 0.0;   // in bits, 0 to 1
};
// Of every layer and head. Checks that the records can be compared.
std::vector<Divergence> divergences(const AttentionRecord& first, const AttentionRecord& second,
                                    const RecordNames& names = {});

}  // namespace posenc::runs
