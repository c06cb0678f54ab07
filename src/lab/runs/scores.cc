#include "runs/scores.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <numbers>
#include <set>

#include "core/plain_text.h"
#include "runs/files.h"
#include "runs/little_endian.h"
#include "weights/messages.h"

namespace posenc::runs {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "PSNCROWS";
constexpr std::uint32_t kVersion = 1;
constexpr const char* kAgain = "evaluate the run again: posenc eval";

Error scores_error(const fs::path& path, const std::string& what, const std::string& rule,
                   const std::string& value = "") {
  return file_error(ErrorKind::kConflict, path.string(), what, rule, value, kAgain);
}

void check_tallies(const fs::path& path, const ConditionTallies& condition, Region region) {
  const std::vector<Tally>& tallies = condition.tallies(region);
  const std::string what =
      fmt::format("{} of {}", region_name(region), weights::in_quotes(condition.name));
  if (tallies.size() != condition.regions[0].size()) {
    throw scores_error(path, what, fmt::format("must have {} rows", condition.regions[0].size()),
                       std::to_string(tallies.size()));
  }
  for (std::size_t row = 0; row < tallies.size(); ++row) {
    const Tally& tally = tallies[row];
    if (tally.correct > tally.weight) {
      throw scores_error(path, what, "must not have more correct answers than scored ones",
                         fmt::format("{} of {} in row {}", tally.correct, tally.weight, row));
    }
    if (!(tally.loss >= 0.0F) || (tally.weight == 0 && tally.loss > 0.0F)) {
      throw scores_error(path, what, "must have a loss of at least 0, and 0 without scored answers",
                         fmt::format("{} in row {}", tally.loss, row));
    }
  }
}

void check_text(const fs::path& path, const char* what, const std::string& text) {
  if (!text.empty() && one_line(text) == text) return;
  throw scores_error(path, what, "must be printable text on one line", weights::in_quotes(text));
}

void check_scores(const fs::path& path, const RunTallies& scores) {
  check_text(path, "evaluation hash", scores.evaluation_hash);
  std::set<std::string> names;
  for (const ConditionTallies& condition : scores.conditions) {
    const std::string name = weights::in_quotes(condition.name);
    check_text(path, "name of a condition", condition.name);
    if (!names.insert(condition.name).second) {
      throw scores_error(path, "condition", "must have a unique name", name);
    }
    const std::size_t rows = condition.regions[0].size();
    if (!condition.clusters.empty() && condition.clusters.size() != rows) {
      throw scores_error(path, "clusters of " + name, fmt::format("must be one per row, {}", rows),
                         std::to_string(condition.clusters.size()));
    }
    for (const Region region : kRegions) check_tallies(path, condition, region);
  }
}

bool fits_two_bytes(const ConditionTallies& condition) {
  return std::all_of(condition.regions.begin(), condition.regions.end(), [](const auto& tallies) {
    return std::all_of(tallies.begin(), tallies.end(), [](const Tally& tally) {
      return tally.weight <= std::numeric_limits<std::uint16_t>::max();
    });
  });
}

template <class Count>
void put_regions(ByteWriter& out, const ConditionTallies& condition) {
  for (const auto& tallies : condition.regions) {
    for (const Tally& tally : tallies) out.put(static_cast<Count>(tally.correct));
    for (const Tally& tally : tallies) out.put(static_cast<Count>(tally.weight));
    for (const Tally& tally : tallies) out.put(std::bit_cast<std::uint32_t>(tally.loss));
  }
}

void put_condition(ByteWriter& out, const ConditionTallies& condition) {
  const bool two_bytes = fits_two_bytes(condition);
  out.put_text(condition.name);
  out.put(static_cast<std::uint32_t>(condition.regions[0].size()));
  out.put(static_cast<std::uint8_t>(condition.clusters.empty() ? 0 : 1));
  out.put(static_cast<std::uint8_t>(two_bytes ? 2 : 4));
  for (const std::uint32_t cluster : condition.clusters) out.put(cluster);
  two_bytes ? put_regions<std::uint16_t>(out, condition)
            : put_regions<std::uint32_t>(out, condition);
}

template <class Count>
void take_regions(ByteReader& in, ConditionTallies& condition, std::size_t rows) {
  in.require(kRegions.size() * rows * (2 * sizeof(Count) + sizeof(float)));
  for (auto& tallies : condition.regions) {
    tallies.resize(rows);
    for (Tally& tally : tallies) tally.correct = in.take<Count>();
    for (Tally& tally : tallies) tally.weight = in.take<Count>();
    for (Tally& tally : tallies) tally.loss = std::bit_cast<float>(in.take<std::uint32_t>());
  }
}

ConditionTallies take_condition(ByteReader& in) {
  ConditionTallies condition{.name = in.take_text()};
  const auto rows = static_cast<std::size_t>(in.take<std::uint32_t>());
  const auto clustered = in.take<std::uint8_t>();
  const auto count_bytes = in.take<std::uint8_t>();
  if (clustered > 1 || (count_bytes != 2 && count_bytes != 4)) in.fail();
  if (clustered == 1) {
    in.require(rows * sizeof(std::uint32_t));
    condition.clusters.resize(rows);
    for (std::uint32_t& cluster : condition.clusters) cluster = in.take<std::uint32_t>();
  }
  count_bytes == 2 ? take_regions<std::uint16_t>(in, condition, rows)
                   : take_regions<std::uint32_t>(in, condition, rows);
  return condition;
}

double total_of(const Tally& tally, Metric metric) {
  switch (metric) {
    case Metric::kAccuracy:
      return tally.correct;
    case Metric::kError:
      return static_cast<double>(tally.weight) - static_cast<double>(tally.correct);
    default:
      return static_cast<double>(tally.loss) / std::numbers::ln2;
  }
}

}  // namespace

std::string condition_name(std::string_view axis, std::int64_t length, std::string_view schedule) {
  return fmt::format("{} {}{}{}", axis, length, schedule.empty() ? "" : " ", schedule);
}

fs::path scores_path(const fs::path& run) { return run / "scores.bin"; }

void write_scores(const fs::path& path, const RunTallies& scores) {
  check_scores(path, scores);
  ByteWriter out(kMagic);
  out.put(kVersion);
  out.put_text(scores.evaluation_hash);
  out.put(static_cast<std::uint32_t>(scores.conditions.size()));
  for (const ConditionTallies& condition : scores.conditions) put_condition(out, condition);
  atomic_write(path, out.bytes());
}

RunTallies read_scores(const fs::path& path) {
  return parse_scores(read_file(path.string()), path);
}

RunTallies parse_scores(std::string_view bytes, const fs::path& path) {
  ByteReader in(bytes, path.string(), kAgain);
  if (in.take_bytes(kMagic.size()) != kMagic) in.fail();
  const auto version = in.take<std::uint32_t>();
  if (version != kVersion) {
    throw file_error(ErrorKind::kUnsupported, path.string(), "version",
                     fmt::format("must be {}", kVersion), std::to_string(version), kAgain);
  }
  RunTallies scores{.evaluation_hash = in.take_text()};
  for (auto left = in.take<std::uint32_t>(); left > 0; --left) {
    scores.conditions.push_back(take_condition(in));
  }
  if (!in.at_end()) in.fail();
  check_scores(path, scores);
  return scores;
}

std::vector<statistics::RowSum> row_sums(std::span<const Tally> tallies, Metric metric) {
  std::vector<statistics::RowSum> rows;
  if (metric == Metric::kTokensPerSecond) return rows;
  for (const Tally& tally : tallies) {
    rows.push_back({total_of(tally, metric), static_cast<double>(tally.weight)});
  }
  return rows;
}

std::vector<statistics::RowSum> whole_row_sums(std::span<const Tally> tallies, Metric metric) {
  std::vector<statistics::RowSum> rows;
  for (const Tally& tally : tallies) {
    const bool right = tally.correct == tally.weight;
    const double total = right == (metric == Metric::kAccuracy) ? 1.0 : 0.0;
    rows.push_back(tally.weight > 0 ? statistics::RowSum{total, 1.0} : statistics::RowSum{});
  }
  return rows;
}

}  // namespace posenc::runs
