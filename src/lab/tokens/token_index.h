// index.json of a folder of token files: what `posenc data tokens` writes and training reads.
//
//   index.json              this index
//   tokenizer.json          of the text, as Hugging Face reads it
//   train-00000.bin ...     token numbers, little endian, uint16 or uint32; the shards of a split, one after
//                           the other, are its documents, each with the end_of_document token behind it
//   train.documents         where each document ends in the split, little endian uint64
//
// and the same for validation and test.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace posenc::tokens {

inline constexpr std::array<std::string_view, 3> kSplitNames = {"train", "validation", "test"};

struct TokenShard {
  std::string file;
  std::int64_t tokens = 0;
  std::string sha256;
};

struct TokenSplit {
  std::int64_t tokens = 0;
  std::int64_t documents = 0;
  std::int64_t bytes = 0;  // of the text
  std::vector<TokenShard> shards;
  TokenShard borders;  // <split>.documents; its `tokens` are the documents
};

struct TokenIndex {
  int token_bytes = 2;  // 2 or 4
  std::int64_t vocabulary = 0;
  std::string tokenizer_sha256;  // Tokenizer::fingerprint()
  std::int64_t end_of_document = 0;
  std::string source;
  std::string licence;
  std::array<TokenSplit, 3> splits;  // by kSplitNames

  [[nodiscard]] std::int64_t tokens() const;
  [[nodiscard]] std::int64_t documents() const;
  [[nodiscard]] std::int64_t bytes() const;
};

// An Error names the field; files must be plain names, so that an index reads its own folder alone.
TokenIndex parse_token_index(std::string_view json, const std::string& scope);
std::string token_index_json(const TokenIndex& index);

}  // namespace posenc::tokens
