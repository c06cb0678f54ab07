// A task: samples from a seed, the facts that a metric needs, and words for people.
//
// Every token and every target is a number below TaskInfo::vocabulary. No sample holds the answer
// where it is scored: a target follows from the tokens at and before its position (a bidirectional
// task: from the other tokens), and is not written there.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/config.h"

namespace posenc::tasks {

inline constexpr std::int32_t kUnscored = -1;

// rows x length, row-major. targets[t] is what the model must say at position t, having seen tokens
// 0..t (a bidirectional model: all tokens), or kUnscored.
struct Batch {
  std::int64_t rows = 0;
  std::int64_t length = 0;
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> targets;
};

// A way in which samples are made. "train" is how training samples are made; the others are the
// test axes.
struct Axis {
  std::string name;  // "train", "longer", "more", "beyond", "dense", "sparse", "sliding", ...
  std::string doc;   // one line
  bool in_domain = false;
};

struct Condition {
  std::string axis = "train";
  std::int64_t length = 0;        // positions of a row
  std::int64_t train_length = 0;  // what a factor such as 2x is counted from; 0: the length itself
  bool held_out = false;  // corpora: rows of test files; generators: another stream of numbers
};

// What the lab must know to build a model and to print a table.
struct TaskInfo {
  std::string name;
  std::int64_t vocabulary = 0;
  bool bidirectional = false;
  std::string metric = "accuracy";  // or "error" (on a log scale), or "bits_per_byte"
  bool row_metric = false;          // a row counts as right only if all its scored positions are
  std::int64_t length = 0;          // positions of the published set-up
  std::int64_t min_length = 1;      // the shortest row of the train axis
};

// Positions begin .. end - 1 of a row.
struct Region {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool operator==(const Region&) const = default;
};

class Task {
 public:
  Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  virtual ~Task() = default;

  [[nodiscard]] virtual const TaskInfo& info() const = 0;
  [[nodiscard]] virtual std::vector<Axis> axes() const = 0;

  // Fills batch.rows rows (the caller sets that number alone). Row r depends on (seed, condition,
  // first_row + r) alone: never on batch size, threads or earlier calls. Thread-safe.
  virtual void fill(const Condition& condition, std::uint64_t seed, std::uint64_t first_row,
                    Batch& batch) const = 0;

  // Corpora end; generators do not.
  [[nodiscard]] virtual std::optional<std::int64_t> rows(const Condition& condition) const;

  // The metric of the best answer that looks at the position and never at the content: the commonest
  // target, over all positions or at each one, whichever is better. For bits_per_byte it is the
  // entropy of single bytes. Measured over samples of a stream of its own.
  [[nodiscard]] virtual double chance(const Condition& condition) const;

  // The share of answers under the condition that some training sample has as its answer, measured
  // over as many training rows: what no model can answer is what it never had to say.
  [[nodiscard]] virtual double trained_share(const Condition& condition) const;

  // A token as a person reads it, for samples, plots of attention and buckets of answers ("7").
  [[nodiscard]] virtual std::string token_text(std::int32_t token) const = 0;

  // Where a row says what is wanted of it ("count A and C <sep>", "<query> 2"), for tasks whose rows say
  // so in one place.
  [[nodiscard]] virtual std::optional<Region> instruction(std::span<const std::int32_t> row) const;
};

// Throws an Error for fields that are out of range or do not go together, and for corpora that are
// not there.
std::unique_ptr<Task> make_task(const TaskConfig& config);

// A config's traits without making the task, which may need files.
const TaskTraits& task_traits(const TaskConfig& config);

// One row for people: its tokens, and below each scored one the target.
std::string render(const Task& task, const Batch& batch, std::int64_t row);

}  // namespace posenc::tasks
