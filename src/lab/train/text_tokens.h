// Text as the tokens of a run's task and back, for prompts that a user writes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/load.h"
#include "tasks/task.h"

namespace posenc::train {

class TextTokens {
 public:
  virtual ~TextTokens() = default;
  // An Error signed `scope` for text that the task has no tokens for.
  [[nodiscard]] virtual std::vector<std::int64_t> encode(std::string_view text,
                                                         const std::string& scope) const = 0;
  // The text of tokens that follow others.
  [[nodiscard]] virtual std::string decode(const std::vector<std::int64_t>& tokens) const = 0;
  // Tokens from here on have no text; a model may have rows for more.
  [[nodiscard]] virtual std::int64_t vocabulary() const = 0;
  // Whether each token of a text is followed by the one that the model was trained to say.
  [[nodiscard]] virtual bool predicts_next() const = 0;
};

// Bytes for language models, or the tokenizer of their token files; for other tasks the words of posenc sample,
// separated by spaces.
std::unique_ptr<TextTokens> text_tokens(const config::LabConfig& config, const tasks::Task& task);

// Of a tokenizer.json, or of a folder that holds one. Prompts begin as the file's template says (<|begin_of_text|>).
std::unique_ptr<TextTokens> tokenizer_tokens(const std::string& path);

}  // namespace posenc::train
