// Cuts text into words before byte-pair encoding: the regular expressions of GPT-2, Llama 3 and Qwen,
// matched by hand. The words of a text, one after the other, are the text.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace posenc::tokens {

enum class SplitPattern {
  kNone,    // the whole text is one word
  kGpt2,    // also Pythia and GPT-NeoX
  kLlama3,  // numbers in groups of at most three digits, line ends with what comes before them
  kQwen2,   // as Llama 3, each digit alone; also Qwen 3
};

// As tokenizer.json writes it; empty for kNone.
std::string_view regex_of(SplitPattern pattern);
std::optional<SplitPattern> pattern_of(std::string_view regex);

// The end of the word that starts at byte `at` < text.size(); always past `at`.
std::size_t word_end(SplitPattern pattern, std::string_view text, std::size_t at);

}  // namespace posenc::tokens
