// Trains a byte-level byte-pair encoding: Sennrich et al. 2016, arXiv 1508.07909.
//
//   tokens::Trainer trainer({.vocabulary = 4096});
//   for (const std::string& document : documents) trainer.add(document);
//   const tokens::Tokenizer tokenizer(trainer.train());
//
// The most frequent pair of neighbouring tokens within words becomes a token, again and again. Of equally
// frequent pairs the one with the smaller left number is taken, then the smaller right number, so the
// result depends on the text alone. Numbers: special tokens, the 256 bytes in the order of their characters
// (byte_level.h), then the merges. These are the rules of Hugging Face's BpeTrainer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokens/tokenizer_parts.h"

namespace posenc::tokens {

struct TrainOptions {
  std::int64_t vocabulary = 4096;  // tokens in all; fewer where no pair is left
  std::int64_t least_count = 2;    // rarer pairs are not merged
  SplitPattern pattern = SplitPattern::kGpt2;
  bool nfc = false;
  std::vector<std::string> special = {"<|endoftext|>"};
};

class Trainer {
 public:
  // An Error where the vocabulary has no room for the bytes and special tokens.
  explicit Trainer(TrainOptions options);
  void add(std::string_view document);
  [[nodiscard]] TokenizerParts train() const;

 private:
  TrainOptions options_;
  std::unordered_map<std::string, std::int64_t> words_;
};

}  // namespace posenc::tokens
