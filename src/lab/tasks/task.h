// A task: samples from a seed, the facts that a metric needs, and words for people.
//
// Every token and every target is a number below TaskInfo::vocabulary. No sample holds the answer
// where it is scored: a target follows from the tokens at and before its position (a bidirectional
// task: from the other tokens), and is not written there. A task that breaks this on purpose, to repeat a
// published mistake, says so in warning().
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/metric.h"
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
  std::string name;  // "train", "longer", "more", "beyond", "dense", "sparse", ...
  std::string doc;   // one line
  bool in_domain = false;
  // Differs from training samples at the trained length already (a sparse Flip-Flop, a dense copy), so that
  // every length counts as beyond training.
  bool shifted = false;
};

// Samples to learn from, to choose by (early stopping, the best checkpoint) and to report. Corpora hold
// different documents in each; generators draw from different streams.
enum class Split { kTrain, kValidation, kTest };
// "training", "validation" or "test".
std::string_view split_name(Split split);

struct Condition {
  std::string axis = "train";
  std::int64_t length = 0;        // positions of a row
  std::int64_t train_length = 0;  // what a factor such as 2x is counted from; 0: the length itself
  Split split = Split::kTrain;
  // TaskInfo::has_depth: where the row hides what it asks for, 0 at its start, 1 before the question.
  // Rows of one number at two depths differ in nothing else. Without it each row draws its depth.
  std::optional<double> depth = {};
};

// What the lab must know to build a model and to print a table.
struct TaskInfo {
  std::string name;
  std::int64_t vocabulary = 0;
  bool bidirectional = false;
  Metric metric = Metric::kAccuracy;
  bool row_metric = false;      // a row counts as right only if all its scored positions are
  std::int64_t length = 0;      // positions of the published set-up
  std::int64_t min_length = 1;  // the shortest row of the train axis
  std::int32_t pad = -1;   // fills rows up; a bidirectional model does not attend to it. -1: none
  bool has_depth = false;  // a condition may fix the depth
  // Ends a document within a row: attention does not look past it. -1: rows are of one piece.
  std::int32_t separator = -1;
};

// Positions begin .. end - 1 of a row.
struct Region {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool single = false;  // answers one by one, where the metric is of whole rows
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
  // entropy of single bytes. Measured over samples of a separate stream.
  // One value for each range of positions, over the answers there; NaN where it has none.
  [[nodiscard]] virtual std::vector<double> chances(const Condition& condition,
                                                    std::span<const Region> ranges) const;
  // Over the whole row.
  [[nodiscard]] double chance(const Condition& condition) const;

  // The share of answers under the condition whose label was trained: it is at least 0.5 % of the
  // training answers to the same operation (of more than 100 labels: half of an even share; for
  // bits_per_byte: any). Measured over as many training rows. A model seldom says a label that it
  // hardly ever had to say.
  [[nodiscard]] virtual double trained_share(const Condition& condition) const;

  // The length that an axis has by itself: dense selective copy has fewer blanks, so a shorter row.
  // Conditions that name no length use it.
  [[nodiscard]] virtual std::int64_t natural_length(std::string_view axis,
                                                    std::int64_t train_length) const;

  // What a row shares with others that makes them alike, such as its document: rows are then resampled
  // by it. Nothing where every row stands for itself.
  [[nodiscard]] virtual std::optional<std::uint32_t> cluster(const Condition& condition,
                                                             std::uint64_t row) const;

  // SHA-256 over the names and bytes of the files that the task reads; empty for tasks that read none.
  [[nodiscard]] virtual std::string content_hash() const;
  // One sentence about those files: the documents of each split, and what was left out.
  [[nodiscard]] virtual std::string data_summary() const;

  // One sentence about what its scores do not measure, for a task that was asked to leak; empty otherwise.
  [[nodiscard]] virtual std::string warning() const;

  // The depth of a row, in the sense of Condition::depth, for tasks that have one.
  [[nodiscard]] virtual std::optional<double> depth(std::span<const std::int32_t> row) const;

  // Which of several questions the row asks, where one task asks several: a label that was trained
  // as the answer to one says nothing about the other.
  [[nodiscard]] virtual std::int32_t operation(std::span<const std::int32_t> row) const;

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
