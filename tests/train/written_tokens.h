// Token files for runs: documents of several lengths.
#pragma once

#include <string>

#include "support/paths.h"
#include "tokens/token_writer.h"
#include "tokens/tokenizer.h"

namespace posenc::testing {

inline void write_token_files(const std::string& folder) {
  const std::string golden = std::string(kTestData) + "/golden/tokenizers/gpt2.json";
  const tokens::Tokenizer tokenizer = tokens::Tokenizer::read(golden);
  tokens::TokenWriter writer(tokenizer,
                             {.folder = folder, .validation_share = 0.2, .test_share = 0.2});
  for (int i = 0; i < 120; ++i) {
    tokens::SourceDocument document{"d" + std::to_string(i), ""};
    for (int word = 0; word < 3 + i % 40; ++word) {
      document.text += " whale " + std::to_string(i * word);
    }
    writer.add(document);
  }
  (void)writer.finish();
}

// A training on them: rows hold several documents, which are kept apart.
inline std::string config_of_tokens(const std::string& folder) {
  return "task: {language_model: {tokens: " + folder + R"(, longest_context: 32, scored: 4}}
model: {encoding: rope + cope(npos_max=8), layers: 2, dim: 16, heads: 2, dropout: 0.1, mlp_dropout: 0.1}
train: {length: 32, batch: 16, steps: 6, accumulate: 2, log_every: 1, eval_every: 0, timeout: 60}
)";
}

}  // namespace posenc::testing
