// Byte-level byte-pair encoding: text to token numbers and back, as Hugging Face's tokenizers do it.
//
//   const auto tokenizer = tokens::Tokenizer::read("tokenizer.json");
//   const std::vector<std::int32_t> ids = tokenizer.encode("The whale");
//   const std::string text = tokenizer.decode(ids);   // "The whale"
//
// Reads tokenizer.json files of the GPT-2, GPT-NeoX, Llama 3 and Qwen 2/3 kind:
//
//   model           BPE without dropout, unk_token, byte_fallback, prefixes and suffixes; ignore_merges
//   pre_tokenizer   ByteLevel, or a Split with the pattern of GPT-2, Llama 3 or Qwen and a ByteLevel
//   normalizer      none or NFC, which encode() applies: Unicode 14, where Hugging Face has Unicode 9, so
//                   that marks assigned since then may be put in another order
//   post_processor  ByteLevel (changes no token), TemplateProcessing (EncodeOptions::add_template)
//   added_tokens    without single_word, lstrip and rstrip
//
// Any other part is an Error that names it. Texts are bytes: those that are no valid UTF-8 are encoded
// byte by byte, so decode(encode(text)) is the text, or its NFC where the tokenizer asks for that.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokens/added_tokens.h"
#include "tokens/merge.h"
#include "tokens/tokenizer_parts.h"
#include "tokens/word_cache.h"

namespace posenc::tokens {

struct EncodeOptions {
  // Added tokens such as <|endoftext|> that occur in the text are those tokens. false: they are plain
  // text, which is right for documents of unknown origin.
  bool find_added = true;
  bool add_template =
      false;  // <|begin_of_text|> and the like, as Hugging Face's add_special_tokens
};

class Tokenizer {
 public:
  // A tokenizer.json file, or a folder that holds one.
  static Tokenizer read(const std::string& path);
  static Tokenizer parse(std::string_view json, const std::string& scope);
  explicit Tokenizer(TokenizerParts parts);
  Tokenizer(Tokenizer&&) = default;
  Tokenizer& operator=(Tokenizer&&) = default;
  Tokenizer(const Tokenizer&) = delete;  // by_bytes_ points into parts_
  Tokenizer& operator=(const Tokenizer&) = delete;
  ~Tokenizer() = default;

  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text,
                                                 const EncodeOptions& options = {}) const;
  // The bytes of the tokens; an Error for a number that is no token.
  [[nodiscard]] std::string decode(std::span<const std::int32_t> tokens,
                                   bool skip_special = false) const;

  // One more than the largest number of a token: the rows of an embedding.
  [[nodiscard]] std::int64_t vocabulary() const { return std::ssize(texts_); }
  // The token with these bytes or, before it, the added token with this content.
  [[nodiscard]] std::optional<std::int32_t> find(std::string_view bytes) const;
  [[nodiscard]] bool is_special(std::int32_t token) const;
  // SHA-256 over all that decides about encodings. Files that differ in their layout alone have the same.
  [[nodiscard]] std::string fingerprint() const;
  [[nodiscard]] const TokenizerParts& parts() const { return parts_; }

 private:
  friend class Encoder;
  [[nodiscard]] std::optional<std::int32_t> whole_word(std::string_view word) const;

  TokenizerParts parts_;
  MergeTable merges_;
  AddedTokens raw_added_;         // found in the text as it is
  AddedTokens normalized_added_;  // found in the normalised text
  std::array<std::int32_t, 256> byte_tokens_{};
  std::unordered_map<std::string_view, std::int32_t> by_bytes_;  // into parts_
  std::vector<std::optional<std::string>> texts_;                // what a number decodes to
  std::vector<bool> special_;
};

// Encodes many texts with what it remembers of earlier ones. One per thread; the tokenizer must outlive it.
class Encoder {
 public:
  explicit Encoder(const Tokenizer& tokenizer, EncodeOptions options = {},
                   int cache_bits = WordCache::kBits);
  void append(std::string_view text, std::vector<std::int32_t>& tokens);

 private:
  void append_normalized(std::string_view text, std::vector<std::int32_t>& tokens);
  void append_words(std::string_view text, std::vector<std::int32_t>& tokens);
  void append_word(std::string_view word, std::vector<std::int32_t>& tokens);

  const Tokenizer* tokenizer_;
  EncodeOptions options_;
  WordMerger merger_;
  WordCache cache_;
  std::vector<std::int32_t> word_;
};

}  // namespace posenc::tokens
