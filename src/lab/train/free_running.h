// Answers of several tokens, generated one after the other from the model's own outputs. Teacher-forced figures
// show each token the right ones before it; here a mistake stays in the sequence, as it does in use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/transformer.h"
#include "tasks/task.h"
#include "train/evaluate.h"

namespace posenc::train {

// Scored positions begin .. end - 1 of a row, where each answer is the next token: what teacher forcing shows.
struct AnswerSpan {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// Nothing where a row has several spans, none, or answers that are not the next tokens.
std::optional<AnswerSpan> answer_span(const tasks::Batch& batch, std::int64_t row);

// Greedy answers to `samples` rows of the condition, through the decode kernels. Nothing where a row has no span or
// every answer of the first rows has one token, where the model cannot decode, or where the evaluation was stopped.
std::optional<FreeRunning> free_running(model::Transformer& model, const tasks::Task& task,
                                        const EvalCase& c, const EvalSetting& setting);

}  // namespace posenc::train
