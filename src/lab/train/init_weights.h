// train.init_from: the weights of a run, a safetensors file or a Hugging Face folder in a new model.
//
// Every tensor is accounted for: those of the model must be in the source with the same shape, and the other way
// round, or one Error names them all. Only encodings may differ, because model.encoding may replace them. Parameters that
// both have are taken over; new ones start at values that leave the scores as they are where the encoding has such
// values (a zero table), else at their usual ones; parameters of encodings that are gone are dropped.
#pragma once

#include <string>

#include "config/load.h"
#include "core/value.h"
#include "model/transformer.h"
#include "tasks/task.h"

namespace posenc::train {

struct InitReport {
  std::string path;
  std::string kind;  // "run at step 400", "gpt2 tensors of Hugging Face"
  std::string sha256;
  std::int64_t tensors = 0;
  // Where model.encoding replaces the source's: whether the model still computes the same, in a sentence. Then what is new
  // in the model, and what is left out of the source: also where the source is weights alone, whose encoding is not known.
  std::string encoding;

  // One line for people.
  [[nodiscard]] std::string text() const;
  // For environment.json.
  [[nodiscard]] Value::Map facts() const;
};

InitReport init_weights(model::Transformer& model, const config::LabConfig& config,
                        const tasks::Task& task);

// The model of a Hugging Face folder as it is, in evaluation mode.
model::Transformer hf_model(const std::string& folder);

}  // namespace posenc::train
