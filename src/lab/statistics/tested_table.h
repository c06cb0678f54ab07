// Every pair of encodings in every condition of a table, tested together.
//
//   const TestedTable table(conditions);
//   table.ahead(0, cope, rope)      // whether the data decide it
//   table.backed_best(0)            // for a "best" card; nothing where no test backs one
//
// A table of 8 encodings and 3 conditions has 84 tests, of which about 4 would have p < 0.05 by chance. Holm's
// correction keeps the probability of any false claim in the table below 5 %. It counts all pairs, including
// those that no sentence mentions, because the data determine which pairs are mentioned.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "statistics/paired.h"

namespace posenc::statistics {

inline constexpr double kSignificance = 0.05;
// Fewer seeds than this miss rare failures of a training so often that a claim needs the second level
// (docs/statistics.md, seeds that fail now and then).
inline constexpr std::size_t kManySeeds = 5;
inline constexpr double kFewSeedsSignificance = 0.01;

// Holm's adjusted p-values, in the order given: the i-th smallest of m times (m - i + 1), at most 1, and
// never below that of a smaller p-value.
std::vector<double> holm(std::span<const double> p_values);

struct PairTest {
  Difference difference;     // of the first minus the second
  double adjusted_p = 1.0;   // over the table; 1 where there is no test
  bool first_ahead = false;  // the first is the better one, and the test says so
  bool separated = false;    // one of them is ahead
};

class TestedTable {
 public:
  // An Error where runs of a condition were not scored on the same rows.
  explicit TestedTable(std::vector<ConditionScores> conditions);

  [[nodiscard]] const std::vector<ConditionScores>& conditions() const { return conditions_; }

  // first and second are indices into the condition's encodings, and differ.
  [[nodiscard]] PairTest test(std::size_t condition, std::size_t first, std::size_t second) const;
  [[nodiscard]] bool ahead(std::size_t condition, std::size_t first, std::size_t second) const {
    return test(condition, first, second).first_ahead;
  }

  // Encodings with kFewestSeeds runs or more, the best mean first. Where a failed run makes a mean
  // infinite, all are ordered by their median run.
  [[nodiscard]] std::vector<std::size_t> order(std::size_t condition) const;

  // The encoding that is ahead of every other one of the condition, also of those with too few seeds to be
  // tested (so there is none then); nothing for fewer than two encodings.
  [[nodiscard]] std::optional<std::size_t> backed_best(std::size_t condition) const;

 private:
  struct Pair {
    std::size_t condition;
    std::size_t first;
    std::size_t second;  // above first
    Difference difference;
    double adjusted_p = 1.0;
  };
  [[nodiscard]] bool is_separated(const Pair& pair) const;
  void adjust();  // by Holm

  std::vector<ConditionScores> conditions_;
  std::vector<Pair> pairs_;
};

}  // namespace posenc::statistics
