// Tasks of every kind in small shapes, and rows as words, for tests that hold for all of them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tasks/task.h"

namespace posenc::tasks {

using Words = std::vector<std::string>;

// What the words so far say about the answer: nothing was asked, it is lost, or it is known.
struct Solution {
  bool asked = false;
  bool lost = false;
  std::string answer = {};
};
using Solver = std::function<Solution(const Words&)>;

struct SampleTask {
  std::string title;
  TaskConfig config;
  Solver solve;
  std::int64_t length = 0;
  bool fillers_may_ask = false;  // unscored tokens that look like questions
};

inline Batch make_batch(const Task& task, const Condition& condition, std::uint64_t seed,
                        std::uint64_t first_row, std::int64_t rows) {
  Batch batch;
  batch.rows = rows;
  task.fill(condition, seed, first_row, batch);
  return batch;
}

inline std::size_t place(const Batch& batch, std::int64_t row, std::int64_t t) {
  return static_cast<std::size_t>(row * batch.length + t);
}

inline Words row_words(const Task& task, const Batch& batch, std::int64_t row) {
  Words words;
  for (std::int64_t t = 0; t < batch.length; ++t) {
    words.push_back(task.token_text(batch.tokens[place(batch, row, t)]));
  }
  return words;
}

// Share of `hits` among `trials`.
inline double share(std::int64_t hits, std::int64_t trials) {
  return static_cast<double>(hits) / static_cast<double>(trials);
}

}  // namespace posenc::tasks
