// What all tasks have in common: axes by name, checked conditions, a loop over independent rows.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "posenc/core/error.h"
#include "tasks/draw.h"
#include "tasks/task.h"

namespace posenc::tasks {

// A checked condition, and the batch to fill.
struct Request {
  std::size_t axis = 0;  // as the task lists them
  std::int64_t length = 0;
  std::int64_t train_length = 0;
  Split split = Split::kTrain;
  std::optional<double> depth = {};
  std::uint64_t key = 0;         // of the random numbers
  std::uint64_t shared_key = 0;  // of random numbers that rows of all axes and lengths share
  std::uint64_t first_row = 0;
  Batch* batch = nullptr;
};

struct Row {
  std::span<std::int32_t> tokens;   // to be written, all of them
  std::span<std::int32_t> targets;  // unscored, until written
};

// fill_row(Row, Draw&, number of the row), for each row of the batch.
template <class FillRow>
void for_each_row(const Request& request, FillRow fill_row) {
  const auto length = static_cast<std::size_t>(request.length);
  for (std::int64_t r = 0; r < request.batch->rows; ++r) {
    const std::uint64_t number = request.first_row + static_cast<std::uint64_t>(r);
    const std::size_t start = static_cast<std::size_t>(r) * length;
    Draw draw(request.key, number);
    fill_row(Row{std::span(request.batch->tokens).subspan(start, length),
                 std::span(request.batch->targets).subspan(start, length)},
             draw, number);
  }
}

// input | a b c: tokens[at] is the separator, at which the first answer is due. Each answer is then
// given, so that the next one can be said; what is left of the row is padding.
void write_answers(Row row, std::size_t at, std::int32_t separator,
                   std::span<const std::int32_t> answers, std::int32_t pad);

class Generator : public Task {
 public:
  Generator(TaskInfo info, std::vector<Axis> axes)
      : info_(std::move(info)), axes_(std::move(axes)) {}

  [[nodiscard]] const TaskInfo& info() const final { return info_; }
  [[nodiscard]] std::vector<Axis> axes() const final { return axes_; }
  void fill(const Condition& condition, std::uint64_t seed, std::uint64_t first_row,
            Batch& batch) const final;

 protected:
  // The condition with its axis found and its lengths checked, or an Error.
  [[nodiscard]] Request checked(const Condition& condition) const;
  [[nodiscard]] Error error(ErrorKind kind, ErrorParts parts) const;
  void require_length(std::int64_t length, std::int64_t at_least, const std::string& why) const;
  // The rows of the request are among the first `rows`, or an Error.
  void require_rows(const Request& request, std::int64_t rows) const;
  [[nodiscard]] const Axis& axis(std::size_t index) const { return axes_[index]; }

 private:
  void check_depth(const std::optional<double>& depth) const;
  virtual void fill_rows(const Request& request) const = 0;

  TaskInfo info_;
  std::vector<Axis> axes_;
};

// An Error about fields that are each allowed and together are not.
Error conflict(std::string_view scope, std::string key, std::string rule, std::string value,
               std::string hint = "");

}  // namespace posenc::tasks
