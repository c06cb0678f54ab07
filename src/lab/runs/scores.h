// The scores of a run by row, in scores.bin. Comparisons between runs are paired by row.
//
//   write_scores(scores_path(run), scores);
//   const RunTallies scores = read_scores(scores_path(run));
//   const std::vector<statistics::RowSum> rows = row_sums(scores.conditions[0].tallies(Region::kHeadline), metric);
//
// The file, all numbers little-endian, texts as a uint16 length and UTF-8 bytes:
//
//   "PSNCROWS"  8 bytes
//   uint32      version, 1
//   text        evaluation hash: rows of two runs are the same rows where it is the same
//   uint32      conditions; for each of them:
//     text        name, unique within the file: axis, length and schedule (condition_name)
//     uint32      rows
//     uint8       1 where rows have clusters (documents), else 0
//     uint8       bytes of a count, 2 or 4: the fewest that hold them all
//     uint32[]    clusters, one per row, where there are any
//     for headline, last_eighth and all (score_regions.h):
//       count[]     correct answers, one per row
//       count[]     scored answers
//       float32[]   loss in nats; infinite where an answer has no probability
//
// 512 rows take 12 KB a condition. Nothing follows the last condition.
#pragma once

#include <array>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/metric.h"
#include "runs/score_regions.h"
#include "statistics/estimates.h"

namespace posenc::runs {

using posenc::Metric;

struct ConditionTallies {
  std::string name;
  std::vector<std::uint32_t> clusters;  // of each row; empty: each row by itself
  // A tally per row, in the order of kRegions.
  std::array<std::vector<Tally>, kRegions.size()> regions;

  [[nodiscard]] const std::vector<Tally>& tallies(Region region) const {
    return regions[static_cast<std::size_t>(region)];
  }
  bool operator==(const ConditionTallies&) const = default;
};

struct RunTallies {
  std::string evaluation_hash;
  std::vector<ConditionTallies> conditions;

  bool operator==(const RunTallies&) const = default;
};

// "longer 64", or "longer 64 yarn" under a schedule that is not the model's own.
std::string condition_name(std::string_view axis, std::int64_t length,
                           std::string_view schedule = "");

std::filesystem::path scores_path(const std::filesystem::path& run);

// Replaces the file atomically. An Error where the scores contradict themselves: regions of different
// numbers of rows, more correct answers than scored ones, a loss that is negative, NaN or of no scored
// answer, a name twice.
void write_scores(const std::filesystem::path& path, const RunTallies& scores);
// An Error that names the path where the file is damaged, or holds scores that write_scores refuses.
RunTallies read_scores(const std::filesystem::path& path);
// The same from the bytes of a file that was opened in another way.
RunTallies parse_scores(std::string_view bytes, const std::filesystem::path& path);

// Rows in the unit of a metric, each weighing as many answers as it has: correct answers, wrong ones, or
// bits. A speed has no rows: the result is empty.
std::vector<statistics::RowSum> row_sums(std::span<const Tally> tallies, Metric metric);
// Accuracy or error of whole rows: a row is right where all of its answers are. Rows without one weigh 0.
std::vector<statistics::RowSum> whole_row_sums(std::span<const Tally> tallies, Metric metric);

}  // namespace posenc::runs
