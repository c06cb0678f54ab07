// The parts of a tokenizer, as read from tokenizer.json or trained.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tokens/merge.h"
#include "tokens/split.h"

namespace posenc::tokens {

struct VocabularyToken {
  enum class Kind : std::uint8_t {
    kAbsent,  // no token has this number
    kBytes,   // made by merges
    kText,    // not of the byte-level alphabet: never made, and decoded as it is written
  };
  Kind kind = Kind::kAbsent;
  std::string bytes;
};

// A token that is found in the text before it is split.
struct AddedToken {
  std::int32_t id = 0;
  std::string content;
  bool special = false;     // marks structure, such as the end of a text; decode() can leave it out
  bool normalized = false;  // found in the normalised text, else in the text as it is
};

struct TokenizerParts {
  std::vector<VocabularyToken> vocabulary;  // by number
  std::vector<Merge> merges;                // in order of rank
  bool ignore_merges = false;  // a word that is a token is that token, whatever the merges say
  SplitPattern pattern = SplitPattern::kGpt2;
  bool nfc = false;  // text is normalised first
  std::vector<AddedToken> added;
  std::vector<std::int32_t> prefix;  // what the template puts before and after a text
  std::vector<std::int32_t> suffix;
};

// Hugging Face's tokenizer.json. An Error is signed `scope` and names the part that is unsupported or wrong.
TokenizerParts parse_tokenizer(std::string_view json, const std::string& scope);
// The same format, all fields.
std::string tokenizer_json(const TokenizerParts& parts);

}  // namespace posenc::tokens
