#include "runs/attention_maps.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "posenc/core/error.h"

namespace posenc::runs {
namespace {

Error range_error(const char* what, std::int64_t count, std::int64_t given) {
  return {ErrorKind::kOutOfRange,
          {.scope = "attention",
           .key = what,
           .rule = fmt::format("must be one of {}, from 0", count),
           .value = std::to_string(given)}};
}

const std::vector<float>& values_of(const AttentionLayer& layer, MapKind kind) {
  if (kind == MapKind::kWeights) return layer.weights;
  return kind == MapKind::kGates ? layer.gates : layer.positions;
}

// 0, 1, 2-3, 4-7, ...: the number of bits of the distance.
std::size_t bucket_of(std::int64_t distance) {
  return static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(distance)));
}

std::string bucket_text(std::size_t bucket, std::int64_t longest) {
  if (bucket < 2) return std::to_string(bucket);
  const std::int64_t from = std::int64_t{1} << (bucket - 1);
  const std::int64_t to = std::min(2 * from - 1, longest);
  return from == to ? std::to_string(from) : fmt::format("{}-{}", from, to);
}

DistanceHistogram empty_histogram(std::int64_t tokens) {
  DistanceHistogram histogram;
  const std::size_t buckets = bucket_of(tokens - 1) + 1;
  histogram.shares.assign(buckets, 0.0);
  for (std::size_t b = 0; b < buckets; ++b) {
    histogram.buckets.push_back(bucket_text(b, tokens - 1));
  }
  return histogram;
}

void add(DistanceHistogram& histogram, std::int64_t query, std::int64_t key, double weight) {
  const std::int64_t distance = std::abs(query - key);
  histogram.shares[bucket_of(distance)] += weight;
  histogram.mean += weight * static_cast<double>(distance);
}

DistanceHistogram normalised(DistanceHistogram histogram) {
  const double all = std::accumulate(histogram.shares.begin(), histogram.shares.end(), 0.0);
  if (all <= 0.0) return histogram;
  for (double& share : histogram.shares) share /= all;
  histogram.mean /= all;
  return histogram;
}

Error comparison_error(const std::string& rule, const std::string& hint) {
  return {ErrorKind::kConflict,
          {.scope = "attention", .key = "", .rule = rule, .value = "", .hint = hint}};
}

double row_sum(const Map& map, std::int64_t row) {
  const auto begin = map.values.begin() + row * map.columns;
  return std::accumulate(begin, begin + map.columns, 0.0);
}

// p log2(p / m), the limit at 0 included.
double surprise(double p, double m) { return p > 0.0 ? p * std::log2(p / m) : 0.0; }

// Rows are normalised: what is stored in 16 bits sums to one only nearly.
Divergence head_divergence(const Map& first, const Map& second) {
  Divergence sum;
  std::int64_t rows = 0;
  for (std::int64_t i = 0; i < first.rows; ++i) {
    const double a = row_sum(first, i);
    const double b = row_sum(second, i);
    if (a <= 0.0 || b <= 0.0) continue;  // a query that sees nothing
    ++rows;
    for (std::int64_t j = 0; j < first.columns; ++j) {
      const double p = static_cast<double>(first.at(i, j)) / a;
      const double q = static_cast<double>(second.at(i, j)) / b;
      const double middle = 0.5 * (p + q);
      sum.total_variation += 0.5 * std::abs(p - q);
      sum.jensen_shannon += 0.5 * (surprise(p, middle) + surprise(q, middle));
    }
  }
  const double count = static_cast<double>(std::max<std::int64_t>(rows, 1));
  sum.total_variation /= count;
  sum.jensen_shannon /= count;
  return sum;
}

}  // namespace

Map head_map(const AttentionRecord& record, std::int64_t layer, std::int64_t head, MapKind kind) {
  const auto layers = std::ssize(record.layers);
  if (layer < 0 || layer >= layers) throw range_error("layer", layers, layer);
  if (head < 0 || head >= record.heads) throw range_error("head", record.heads, head);
  const auto& all = values_of(record.layers[layer], kind);
  if (all.empty()) {
    throw comparison_error(fmt::format("layer {} ({}) has no contextual positions", layer,
                                       record.example.encodings[layer]),
                           "choose a layer with cope");
  }
  const std::int64_t T = record.tokens();
  const auto begin = all.begin() + head * T * T;
  return {T, T, std::vector<float>(begin, begin + T * T)};
}

DistanceHistogram attended_distance(const AttentionRecord& record, std::int64_t layer,
                                    std::int64_t head) {
  const Map map = head_map(record, layer, head);
  DistanceHistogram histogram = empty_histogram(map.rows);
  for (std::int64_t i = 0; i < map.rows; ++i) {
    for (std::int64_t j = 0; j < map.columns; ++j) {
      if (map.at(i, j) > 0.0f) add(histogram, i, j, static_cast<double>(map.at(i, j)));
    }
  }
  return normalised(std::move(histogram));
}

DistanceHistogram uniform_distance(const AttentionExample& example) {
  DistanceHistogram histogram = empty_histogram(example.length);
  for (std::int64_t i = 0; i < example.length; ++i) {
    std::int64_t seen = 0;
    for (std::int64_t j = 0; j < example.length; ++j) seen += is_visible(example, i, j) ? 1 : 0;
    for (std::int64_t j = 0; j < example.length; ++j) {
      if (is_visible(example, i, j)) add(histogram, i, j, 1.0 / static_cast<double>(seen));
    }
  }
  return normalised(std::move(histogram));
}

std::optional<GateSums> last_gates(const AttentionRecord& record, std::int64_t layer,
                                   std::int64_t head) {
  const AttentionLayer& cope = record.layers.at(static_cast<std::size_t>(layer));
  if (!cope.has_cope()) return std::nullopt;
  const std::int64_t last = record.tokens() - 1;
  const auto first = static_cast<std::size_t>((head * record.tokens() + last) * record.tokens());
  GateSums sums;
  for (std::int64_t key = 0; key <= last; ++key) {
    if (!is_visible(record.example, last, key)) continue;
    const double gate = cope.gates[first + static_cast<std::size_t>(key)];
    sums.open += gate > 0.5 ? 1 : 0;
    sums.leak += gate > 0.5 ? 0.0 : gate;
  }
  return sums;
}

std::optional<double> instruction_share(const AttentionRecord& record, std::int64_t layer,
                                        std::int64_t head) {
  const AttentionExample& example = record.example;
  if (!example.has_instruction()) return std::nullopt;
  const Map map = head_map(record, layer, head);
  double share = 0.0;
  double all = 0.0;
  for (std::int64_t i = example.instruction_end; i < map.rows; ++i) {
    for (std::int64_t j = 0; j < map.columns; ++j) {
      const auto weight = static_cast<double>(map.at(i, j));
      all += weight;
      if (j >= example.instruction_begin && j < example.instruction_end) share += weight;
    }
  }
  if (all <= 0.0) return std::nullopt;  // it stands at the end
  return share / all;
}

bool is_visible(const AttentionExample& example, std::int64_t query, std::int64_t key) {
  return (!example.causal || key <= query) && (example.window < 0 || query - key <= example.window);
}

void require_same_example(const AttentionRecord& first, const AttentionRecord& second,
                          const RecordNames& names) {
  const AttentionExample& a = first.example;
  const AttentionExample& b = second.example;
  constexpr const char* kSame = "compare runs of the same task on the same axis, length and sample";
  if (a.length != b.length) {
    throw comparison_error(fmt::format("{} has {} tokens and {} has {}", names.first, a.length,
                                       names.second, b.length),
                           kSame);
  }
  for (std::size_t t = 0; t < a.token_ids.size(); ++t) {
    if (a.token_ids[t] == b.token_ids[t] && a.tokens[t] == b.tokens[t]) continue;
    throw comparison_error(fmt::format("token {} is '{}' in {} and '{}' in {}", t, a.tokens[t],
                                       names.first, b.tokens[t], names.second),
                           kSame);
  }
  if (first.layers.size() != second.layers.size() || first.heads != second.heads) {
    throw comparison_error(fmt::format("{} has {} layers of {} heads and {} has {} of {}",
                                       names.first, first.layers.size(), first.heads, names.second,
                                       second.layers.size(), second.heads),
                           "compare models of the same shape");
  }
}

Map head_difference(const AttentionRecord& first, const AttentionRecord& second, std::int64_t layer,
                    std::int64_t head) {
  Map difference = head_map(second, layer, head);
  const Map before = head_map(first, layer, head);
  std::transform(difference.values.begin(), difference.values.end(), before.values.begin(),
                 difference.values.begin(), std::minus<>());
  return difference;
}

std::vector<Divergence> divergences(const AttentionRecord& first, const AttentionRecord& second,
                                    const RecordNames& names) {
  require_same_example(first, second, names);
  std::vector<Divergence> all;
  for (std::int64_t l = 0; l < std::ssize(first.layers); ++l) {
    for (std::int64_t h = 0; h < first.heads; ++h) {
      Divergence one = head_divergence(head_map(first, l, h), head_map(second, l, h));
      one.layer = l;
      one.head = h;
      all.push_back(one);
    }
  }
  return all;
}

}  // namespace posenc::runs
