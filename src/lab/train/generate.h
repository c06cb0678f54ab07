// Continues a prompt with the model of a run, a token at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "model/transformer.h"
#include "runs/progress.h"
#include "system/stop_request.h"

namespace posenc::train {

struct Sampling {
  double temperature = 1.0;  // logits are divided by it; 0: the likeliest token
  std::int64_t seed = 0;
};

enum class Decoding { kCache, kRecompute };

// `count` tokens after `prompt`, each below `vocabulary`. kCache keeps keys and values and runs the decode kernels;
// kRecompute passes over all tokens for each one. Both give the same tokens up to rounding. Ends early once `stop` is
// raised. The model must be in evaluation mode.
std::vector<std::int64_t> generate_tokens(model::Transformer& model,
                                          const std::vector<std::int64_t>& prompt,
                                          std::int64_t count, std::int64_t vocabulary,
                                          const Sampling& sampling, Decoding decoding,
                                          const StopRequest* stop = nullptr);

struct GenerateOptions {
  std::string prompt;
  std::int64_t tokens = 128;
  Sampling sampling;
  bool best = false;      // the best checkpoint instead of the last
  bool no_cache = false;  // kRecompute even where the model can decode
};

struct Generated {
  std::string text;  // what follows the prompt
  std::vector<std::int64_t> prompt_tokens, tokens;
  std::string decoding;  // how, and why without a cache
  std::int64_t step = 0;

  [[nodiscard]] std::string json(const std::string& prompt) const;
};

// Of a run, or of a Hugging Face folder with a tokenizer.json. An Error where the model is bidirectional, where the table of positions is too short for the tokens, and for a
// prompt that the task has no tokens for.
Generated generate(const std::filesystem::path& run, const GenerateOptions& options,
                   runs::Progress& progress, const StopRequest& stop);

}  // namespace posenc::train
