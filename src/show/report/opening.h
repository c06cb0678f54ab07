// The first lines about a task, for a reader who has never heard of it: what is asked, a row of it, what came
// out, and a picture of that.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "draw/figure.h"
#include "report/charts.h"
#include "tasks/task.h"

namespace posenc::report {

struct Question {
  std::string text;               // "the symbols of the row in order, without its blanks"
  std::string row;                // of training, as people read it; empty for texts and long rows
  std::vector<tasks::Axis> axes;  // empty for a task whose files are not here
};
// Nothing where no config of the task can be read.
std::optional<Question> question_of(const TaskTable& table, const Details& details);
// "On rows as in training ... On rows unlike those (sparse, 2x as long) ...": figures alone. Which of their
// differences can be relied on is for the findings to say.
std::string outcome_text(const TaskTable& table);
// Every seed of every encoding, as trained and beyond. Nothing where there is no condition beyond training.
std::optional<draw::Figure> outcome_figure(const TaskTable& table, const SeriesColors& colors);

}  // namespace posenc::report
