// Custom task: questions and answers from a file.
//
//   {"input": "2+3=", "answer": "5"}        a line of the file (JSONL)
//   2 + 3 = <sep>                           its row; scored from <sep> on: 5
//
// Text is read as bytes; lists of integers are taken as tokens. The tokens of a longer answer are each
// said one step ahead, and a row is right when its whole answer is. Examples are held out by a hash of
// their input, so that an input is never on two sides: some to report, others to choose by. Those to
// report may come from a separate file (test_path), which must share no input with the first.
//
//   train    training examples that fit the row, drawn with replacement; held out: each one once
//   longer   the same for examples that do not fit the training length
#pragma once

#include <string>

#include "tasks/traits.h"

namespace posenc::tasks {

struct Custom {
  std::string path;
  std::string test_path;
  double test_share = 0.1;
  double validation_share = 0.05;

  static constexpr TaskTraits kTraits{
      .name = "custom", .doc = "questions and answers from a JSONL file", .paper = ""};

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("path", self.path, FieldRule{.doc = "a JSONL file"});
    visit("test_path", self.test_path,
          FieldRule{.doc = "a file of held-out examples; none: a share of path"});
    visit("test_share", self.test_share,
          FieldRule{.doc = "share of the inputs of path that is held out, without test_path",
                    .min = 0,
                    .max = 0.9});
    visit("validation_share", self.validation_share,
          FieldRule{.doc = "share of the inputs of path to choose by: early stopping, --best",
                    .min = 0,
                    .max = 0.5});
  }
  bool operator==(const Custom&) const = default;
};

std::unique_ptr<Task> make(const Custom& config);

}  // namespace posenc::tasks
