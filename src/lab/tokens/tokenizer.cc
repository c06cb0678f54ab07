#include "tokens/tokenizer.h"

#include <fmt/format.h>

#include <filesystem>

#include "core/value.h"
#include "posenc/core/error.h"
#include "system/sha256.h"
#include "tokens/unicode.h"

namespace posenc::tokens {
namespace {

using Kind = VocabularyToken::Kind;

// A prompt repeats few words, and clearing a large cache would take longer than its encoding.
constexpr std::size_t kPrompt = 1 << 16;
constexpr int kPromptCacheBits = 8;

void hash_field(Sha256& hash, std::string_view name, std::string_view text) {
  hash.update(fmt::format("{} {}\n", name, text.size()));
  hash.update(text);
}

}  // namespace

Tokenizer Tokenizer::read(const std::string& path) {
  const std::filesystem::path given(path);
  const std::string file =
      std::filesystem::is_directory(given) ? (given / "tokenizer.json").string() : path;
  return parse(read_file(file), file);
}

Tokenizer Tokenizer::parse(std::string_view json, const std::string& scope) {
  return Tokenizer(parse_tokenizer(json, scope));
}

Tokenizer::Tokenizer(TokenizerParts parts) : parts_(std::move(parts)), merges_(parts_.merges) {
  texts_.resize(parts_.vocabulary.size());
  for (std::size_t id = 0; id < parts_.vocabulary.size(); ++id) {
    const VocabularyToken& token = parts_.vocabulary[id];
    if (token.kind != Kind::kAbsent) texts_[id] = token.bytes;
    if (token.kind != Kind::kBytes) continue;
    by_bytes_.emplace(token.bytes, static_cast<std::int32_t>(id));
    if (token.bytes.size() != 1) continue;
    byte_tokens_[static_cast<unsigned char>(token.bytes[0])] = static_cast<std::int32_t>(id);
  }
  for (const AddedToken& token : parts_.added) {
    const auto id = static_cast<std::size_t>(token.id);
    if (texts_.size() <= id) texts_.resize(id + 1);
    texts_[id] = token.content;
    special_.resize(std::max(special_.size(), id + 1));
    special_[id] = token.special;
    const bool normal = parts_.nfc && token.normalized;
    (token.normalized ? normalized_added_ : raw_added_)
        .add(normal ? to_nfc(token.content) : token.content, token.id);
  }
  special_.resize(texts_.size());
}

std::optional<std::int32_t> Tokenizer::whole_word(std::string_view word) const {
  const auto found = by_bytes_.find(word);
  return found == by_bytes_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::int32_t> Tokenizer::find(std::string_view bytes) const {
  for (const AddedToken& token : parts_.added) {
    if (token.content == bytes) return token.id;
  }
  return whole_word(bytes);
}

bool Tokenizer::is_special(std::int32_t token) const {
  return token >= 0 && token < vocabulary() && special_[static_cast<std::size_t>(token)];
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text,
                                            const EncodeOptions& options) const {
  std::vector<std::int32_t> tokens;
  const int bits = text.size() <= kPrompt ? kPromptCacheBits : WordCache::kBits;
  Encoder(*this, options, bits).append(text, tokens);
  return tokens;
}

std::string Tokenizer::decode(std::span<const std::int32_t> tokens, bool skip_special) const {
  std::string text;
  for (const std::int32_t token : tokens) {
    const bool known =
        token >= 0 && token < vocabulary() && texts_[static_cast<std::size_t>(token)].has_value();
    if (!known) {
      throw Error(ErrorKind::kOutOfRange,
                  {.scope = "tokenizer",
                   .key = "token",
                   .rule = fmt::format("must be one of the vocabulary of {}", vocabulary()),
                   .value = std::to_string(token),
                   .hint = "decode with the tokenizer that the text was encoded with"});
    }
    if (skip_special && is_special(token)) continue;
    text += *texts_[static_cast<std::size_t>(token)];
  }
  return text;
}

std::string Tokenizer::fingerprint() const {
  Sha256 hash;
  hash.update(fmt::format("nfc {} ignore_merges {}\n", parts_.nfc, parts_.ignore_merges));
  hash_field(hash, "pattern", regex_of(parts_.pattern));
  for (std::size_t id = 0; id < parts_.vocabulary.size(); ++id) {
    const VocabularyToken& token = parts_.vocabulary[id];
    if (token.kind == Kind::kAbsent) continue;
    hash_field(hash, fmt::format("token {} {}", id, static_cast<int>(token.kind)), token.bytes);
  }
  for (const Merge& m : parts_.merges) hash.update(fmt::format("merge {} {}\n", m.left, m.right));
  for (const AddedToken& token : parts_.added) {
    hash_field(hash, fmt::format("added {} {} {}", token.id, token.special, token.normalized),
               token.content);
  }
  hash.update(fmt::format("template {} | {}\n", fmt::join(parts_.prefix, " "),
                          fmt::join(parts_.suffix, " ")));
  return hash.hex();
}

Encoder::Encoder(const Tokenizer& tokenizer, EncodeOptions options, int cache_bits)
    : tokenizer_(&tokenizer), options_(options), merger_(tokenizer.merges_), cache_(cache_bits) {}

void Encoder::append(std::string_view text, std::vector<std::int32_t>& tokens) {
  const TokenizerParts& parts = tokenizer_->parts();
  if (options_.add_template) tokens.insert(tokens.end(), parts.prefix.begin(), parts.prefix.end());
  const auto plain = [&](std::string_view piece) {
    if (!parts.nfc) return append_normalized(piece, tokens);
    append_normalized(to_nfc(piece), tokens);
  };
  if (options_.find_added) {
    split_at_added(tokenizer_->raw_added_, text, plain, [&](auto id) { tokens.push_back(id); });
  } else {
    plain(text);
  }
  if (options_.add_template) tokens.insert(tokens.end(), parts.suffix.begin(), parts.suffix.end());
}

void Encoder::append_normalized(std::string_view text, std::vector<std::int32_t>& tokens) {
  if (!options_.find_added) return append_words(text, tokens);
  split_at_added(
      tokenizer_->normalized_added_, text,
      [&](std::string_view piece) { append_words(piece, tokens); },
      [&](auto id) { tokens.push_back(id); });
}

void Encoder::append_words(std::string_view text, std::vector<std::int32_t>& tokens) {
  const SplitPattern pattern = tokenizer_->parts().pattern;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = word_end(pattern, text, at);
    append_word(text.substr(at, end - at), tokens);
    at = end;
  }
}

void Encoder::append_word(std::string_view word, std::vector<std::int32_t>& tokens) {
  const auto cached = cache_.find(word);
  if (!cached.empty()) return (void)tokens.insert(tokens.end(), cached.begin(), cached.end());
  word_.clear();
  const std::optional<std::int32_t> whole =
      tokenizer_->parts().ignore_merges ? tokenizer_->whole_word(word) : std::nullopt;
  if (whole) {
    word_.push_back(*whole);
  } else {
    for (const char c : word) {
      word_.push_back(tokenizer_->byte_tokens_[static_cast<unsigned char>(c)]);
    }
    merger_.merge(word_);
  }
  cache_.keep(word, word_);
  tokens.insert(tokens.end(), word_.begin(), word_.end());
}

}  // namespace posenc::tokens
